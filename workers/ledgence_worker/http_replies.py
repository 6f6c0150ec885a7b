"""What both clients of the task service over HTTP share: where it is, who calls, and what its answers mean."""

from ipaddress import ip_address
from typing import Any, Final

from ledgence_worker import strict_json, wire
from ledgence_worker.errors import InvalidInput, Unavailable
from ledgence_worker.http_connection import Address, Answer, parse_address
from ledgence_worker.problems import MEDIA_TYPE, error_of

API_PATH: Final = "/ledgence/v1"
JSON: Final = "application/json"


def server_of(url: str) -> Address:
    """Read the URL of a task service: what stands before its API. Raises InvalidInput."""
    address = parse_address(url)
    if address.path.endswith(API_PATH):
        raise InvalidInput(f"The server's URL must end before {API_PATH}.")
    return address


def url_of(address: Address) -> str:
    """Return the URL of a task service, for people."""
    scheme = "https" if address.is_secure else "http"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{scheme}://{host}:{address.port}{address.path}"


def is_overheard(address: Address) -> bool:
    """Whether a token would travel in clear over a network."""
    try:
        is_here = ip_address(address.host).is_loopback
    except ValueError:
        is_here = address.host == "localhost"
    return not address.is_secure and not is_here


def headers_of(token: str, *, user_agent: str) -> dict[str, str]:
    """Return the headers of every request. Raises InvalidInput for a token that cannot be sent, without its text."""
    if not token:
        # Also None, as os.environ.get() returns where the variable is not set.
        raise InvalidInput(
            "No token was given. Set LEDGENCE_TOKEN, or pass as token, "
            "what 'manage.py ledgence_token issue' has printed."
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput("The token must be the text that 'manage.py ledgence_token issue' has printed.")
    return {"Authorization": f"Bearer {token}", "Accept": JSON, "User-Agent": user_agent}


def read_answer(answer: Answer, kind: Any, *, statuses: tuple[int, ...] = (200,), limit: int, depth: int) -> Any:
    """Return the value of type ``kind`` that an answer tells, of at most ``limit`` bytes and ``depth`` levels.

    Raises the error that it tells instead, and Unavailable for whatever is not the service's own whole answer.
    """
    if answer.content_type not in (JSON, MEDIA_TYPE):
        raise error_of(answer.status, None)
    try:
        document = strict_json.loads(answer.body, what="The reply", limit=limit, depth=depth)
        if answer.status in statuses and answer.content_type == JSON:
            return wire.read_reply(kind, document, "reply")
    except InvalidInput as error:
        raise Unavailable(f"The reply cannot be read, so what it did is unknown: {error}") from error
    raise error_of(answer.status, document if answer.content_type == MEDIA_TYPE else None)
