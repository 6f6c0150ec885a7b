"""Where a client sends to: an address that is safe to send a token to."""

from ipaddress import ip_address

from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_connection import Address, parse_address
from ledgence_worker.http_replies import API_PATH
from ledgence_worker.http_tunnel import Proxy, parse_proxy


def check_server(url: str, *, allow_plaintext: bool) -> Address:
    """Read a server's URL. Raises InvalidInput, also for one that would carry the token in clear over a network."""
    address = parse_address(url)
    if address.path.endswith(API_PATH):
        raise InvalidInput(f"The server's URL must end before {API_PATH}.")
    if not address.is_secure and not allow_plaintext and not _is_loopback(address.host):
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


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
