"""A way through a proxy to a server behind it: what goes through is encrypted, so the proxy sees only whereto."""

import base64
import re
import socket
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ledgence_worker.errors import InvalidInput
from ledgence_worker.http_socket import connect, left

_HEAD_BYTES: Final = 16 * 1024


class Proxy(NamedTuple):
    """Where a proxy is, and what it asks of its callers."""

    host: str
    port: int
    authorization: str | None


def parse_proxy(url: str) -> Proxy:
    """Read the URL of a proxy, perhaps with user and password. Raises InvalidInput, without them in its text."""
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        raise InvalidInput("The proxy's URL cannot be read.") from None
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput("The proxy's URL must be like http://proxy.example.com:3128.")
    if parts.username is None:
        return Proxy(parts.hostname, port, None)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.hostname, port, "Basic " + base64.b64encode(login.encode()).decode("ascii"))


def open_tunnel(proxy: Proxy, host: str, port: int, deadline: float) -> socket.socket:
    """Return a socket that leads to the server. Raises OSError."""
    tunnel = connect(proxy.host, proxy.port, deadline)
    tunnel.settimeout(left(deadline))
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        tunnel.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        head = b""
        while b"\r\n\r\n" not in head:
            tunnel.settimeout(left(deadline))
            # The server behind it speaks only when it is spoken to, so that nothing of it is read here.
            part = tunnel.recv(4096)
            head += part
            if not part or len(head) > _HEAD_BYTES:
                raise ConnectionError("the proxy's answer is no HTTP")
        if not re.match(rb"HTTP/1\.[01] 2\d\d[ \r]", head):
            raise ConnectionError(f"the proxy refused with {head[:40].partition(b'\r')[0]!r}")
    except BaseException:
        tunnel.close()
        raise
    return tunnel
