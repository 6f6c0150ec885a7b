"""Where a client sends to: an address that is safe to send a token to."""

from ipaddress import ip_address

from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_connection import Address, parse_address
from ledgence_worker.http_replies import API_PATH


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


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
