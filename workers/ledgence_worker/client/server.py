"""Where a client sends to: an address that is safe to send a token to."""

from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_connection import Address
from ledgence_worker.http_replies import is_overheard, server_of
from ledgence_worker.http_tunnel import Proxy, parse_proxy


def check_server(url: str, *, allow_plaintext: bool) -> Address:
    """Read a server's URL. Raises InvalidInput, also for one that would carry the token in clear over a network."""
    address = server_of(url)
    if not allow_plaintext and is_overheard(address):
        raise InvalidInput(
            f"http://{address.host} would carry the token in clear over a network. Use https, or allow_plaintext=True "
            "where nobody else can listen."
        )
    return address


def check_proxy(url: str | None, server: Address) -> Proxy | None:
    """Read a proxy's URL. Raises InvalidInput, also for a server without TLS: a proxy would read the token."""
    if url is None:
        return None
    proxy = parse_proxy(url)
    if not server.is_secure:
        raise InvalidInput("A proxy is used for https alone: it would read the token.")
    return proxy
