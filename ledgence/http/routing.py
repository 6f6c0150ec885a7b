"""Finds who answers a request, and refuses what its first lines alone rule out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from ledgence.http.endpoint import Endpoint
from ledgence.http.openapi import describe
from ledgence.http.parameters import UUID_TEXT
from ledgence.http.replies import Refused
from ledgence.http.table import ENDPOINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known of a request before its body: the endpoint that answers it, and what its headers say."""

    endpoint: Endpoint
    id: UUID | None
    query: str
    authorization: str | None
    content_type: str
    #: None: not told, as with a body in chunks.
    content_length: int | None


def read_head(method: str, path: str, query: str, headers: Mapping[str, str]) -> Head:
    """Find the endpoint of a request; ``path`` is below /ledgence/v1/, headers by lower-case name. Raises Refused."""
    endpoint, id = _route(method, path)
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(415, "A body must not be compressed.", Accept_Encoding="identity")
    # Some servers tell of a length that was not given as an empty one.
    length = headers.get("content-length") or None
    if length is not None and not re.fullmatch("[0-9]{1,15}", length):
        raise Refused(400, "Content-Length is no number.")
    head = Head(
        endpoint=endpoint,
        id=id,
        query=query,
        authorization=headers.get("authorization"),
        content_type=headers.get("content-type", ""),
        content_length=None if length is None else int(length),
    )
    if head.content_length is not None:
        check_size(head, head.content_length)
    return head


def has_body(headers: Mapping[str, str]) -> bool:
    """Tell whether a body follows the headers."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def check_size(head: Head, size: int) -> None:
    """Refuse a body that is, or has become, too large. Raises Refused."""
    if size and head.endpoint.body is None:
        raise Refused(400, f"{head.endpoint.name} takes no body.")
    if size > head.endpoint.body_bytes:
        raise Refused(
            413, f"The body has more than the {head.endpoint.body_bytes} bytes that {head.endpoint.name} takes."
        )


def _route(method: str, path: str) -> tuple[Endpoint, UUID | None]:
    words = path.split("/")
    id = UUID(words[1]) if len(words) > 1 and UUID_TEXT.fullmatch(words[1]) else None
    if id is not None:
        words[1] = "{id}"
    elif "{id}" in words:
        words = []
    found = _ROUTES.get("/".join(words))
    if found is None:
        raise Refused(404, "There is no such address.")
    # HEAD is GET without the body, which the servers leave out.
    endpoint = found.get("GET" if method == "HEAD" else method)
    if endpoint is None:
        allowed = ", ".join(sorted({*found, "HEAD"} if "GET" in found else found))
        raise Refused(405, f"This address takes {allowed}.", Allow=allowed)
    return endpoint, id


_ROUTES: dict[str, dict[str, Endpoint]] = {}
for _endpoint in (*ENDPOINTS, describe(ENDPOINTS)):
    _ROUTES.setdefault(_endpoint.path, {})[_endpoint.method] = _endpoint
