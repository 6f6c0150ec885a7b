"""The options of one physical queue of SQS. They are checked without boto3, which is imported when they are used."""

import re
from dataclasses import dataclass, field
from importlib import import_module
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher
from ledgence_worker.errors import InvalidInput

VISIBILITY_SECONDS_MAX: Final = 43_200
_URL_CHARACTERS: Final = 1024
_HOST: Final = re.compile(r"[0-9A-Za-z._-]+|[0-9A-Fa-f:.]+")
_REGION: Final = re.compile(r"[0-9a-z]+(-[0-9a-z]+)*")
# An account and a name, or only a name; with the region they make an address that is short enough for a route.
_QUEUE_PATH: Final = re.compile(r"/([!-.0-~]{1,80}/)*[0-9A-Za-z_-]{1,80}(\.fifo)?")
_PATH_CHARACTERS: Final = 180
_AWS_HOST: Final = re.compile(r"(?:.+\.)?sqs(?:-fips)?\.([0-9a-z-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_OLD_AWS_HOST: Final = re.compile(r"([0-9a-z-]+)\.queue\.amazonaws\.com(?:\.cn)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsOptions:
    """One Standard queue. ``endpoint_url`` None: AWS itself.

    A call takes ``operation_timeout_seconds`` to connect at most, and as long to be answered, beside the wait of a
    receive. A received message is nobody else's for ``visibility_timeout_seconds``. The credentials are those that
    boto3 finds, or with ``local_credentials`` ones that no broker but a local one accepts.
    """

    queue_url: str
    region: str
    endpoint_url: str | None = None
    local_credentials: bool = field(default=False, compare=False)
    operation_timeout_seconds: float = field(default=5.0, compare=False)
    visibility_timeout_seconds: int = field(default=60, compare=False)

    def __post_init__(self) -> None:
        if not _REGION.fullmatch(self.region) or len(self.region) > 64:
            raise InvalidInput(f"region {self.region[:80]!r} is not the name of a region, such as eu-west-1.")
        self._check_queue_url()
        endpoint = None if self.endpoint_url is None else _split("endpoint_url", self.endpoint_url)
        if self.local_credentials and (endpoint is None or not _is_loopback(endpoint)):
            raise InvalidInput(
                "local_credentials need an endpoint_url on the loopback interface: elsewhere anyone knows them."
            )
        if not 0.1 <= self.operation_timeout_seconds <= 30:
            raise InvalidInput(f"operation_timeout_seconds must be 0.1-30, not {self.operation_timeout_seconds}.")
        if not 30 <= self.visibility_timeout_seconds <= VISIBILITY_SECONDS_MAX:
            told = f"30-{VISIBILITY_SECONDS_MAX}, not {self.visibility_timeout_seconds}"
            raise InvalidInput(f"visibility_timeout_seconds must be {told}.")

    @property
    def queue_path(self) -> str:
        """The part of the URL that names the queue in its region."""
        return urlsplit(self.queue_url).path

    def publisher(self) -> DispatchPublisher:
        """Return what sends to the queue. Raises InvalidInput if boto3 is missing or misconfigured."""
        _require_boto3()
        from ledgence_worker.delivery.sqs.publisher import SqsPublisher

        return SqsPublisher(self)

    def ack_queue(self) -> AckQueue:
        """Return what receives from the queue. Raises InvalidInput if boto3 is missing or misconfigured."""
        _require_boto3()
        from ledgence_worker.delivery.sqs.ack_queue import SqsAckQueue

        return SqsAckQueue(self)

    def _check_queue_url(self) -> None:
        url = _split("queue_url", self.queue_url)
        if not _QUEUE_PATH.fullmatch(url.path) or len(url.path) > _PATH_CHARACTERS:
            raise InvalidInput(f"queue_url {self.queue_url!r} does not end with the name of a queue.")
        if url.path.endswith(".fifo"):
            raise InvalidInput(f"queue_url {self.queue_url!r} is a FIFO queue: a Standard queue is needed.")
        if self.endpoint_url is not None:
            # Then the requests go there, and the queue's URL is a name.
            return
        host = url.hostname or ""
        if _is_loopback(url) or "." not in host:
            raise InvalidInput(f"queue_url {self.queue_url!r} is not one of AWS: name its broker as endpoint_url too.")
        told = _AWS_HOST.fullmatch(host) or _OLD_AWS_HOST.fullmatch(host)
        if told and told[1] != self.region:
            raise InvalidInput(f"queue_url {self.queue_url!r} is in region {told[1]}, and region says {self.region}.")


def _split(what: str, url: str) -> SplitResult:
    """Return the parts of an absolute URL without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and parts.port != 0 and _HOST.fullmatch(parts.hostname or "")
    except ValueError:
        is_sound = False
    if not is_sound or not re.fullmatch(r"[!-~]+", url) or len(url) > _URL_CHARACTERS or re.search(r"[?#@\\]", url):
        shown = re.sub(r"//.*@", "//...@", url[:80])
        raise InvalidInput(f"{what} {shown!r} must be http:// or https:// with a host, and no user, query or fragment.")
    return parts


def _is_loopback(url: SplitResult) -> bool:
    host = url.hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _require_boto3() -> None:
    try:
        import_module("boto3")
    except ImportError as error:
        text = 'the adapter sqs needs boto3: pip install "django-ledgence-worker[sqs]"'
        raise InvalidInput(f"{text} ({error}).") from error
