"""The task service as a Django view: a waiting request holds its thread, so waits are cut to a second."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from django.db import transaction
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from ledgence.conf import get_settings
from ledgence.http import body
from ledgence.http.call import Call
from ledgence.http.endpoint import Reply
from ledgence.http.replies import Refused, explain, finish, request_id_of
from ledgence.http.routing import Head, check_size, has_body, read_head
from ledgence.service import DatabaseTaskService
from ledgence.worker_connections import RequestConnections
from ledgence_worker.errors import Busy

WAIT_SECONDS_MAX = 1.0
#: How often a request that waits looks again.
POLL_SECONDS = 0.25
READ_BYTES = 64 * 1024


@transaction.non_atomic_requests(using=get_settings().database)
@csrf_exempt
def answer(request: HttpRequest, path: str) -> HttpResponse:
    """Answer one request of the API. Tokens authenticate it, not sessions, so it needs no CSRF token."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    request_id, method = request_id_of(headers), str(request.method)
    is_body_left = has_body(headers)
    try:
        head = read_head(method, path, request.META.get("QUERY_STRING", ""), headers)
        call = Call(_service(os.getpid()), head)
        call.admit()
        content = _take_body(head, request)
        is_body_left = False
        reply = _reply(call, content)
    except Exception as error:
        reply = explain(error, request_id=request_id, method=method, path=request.path)
        if is_body_left and reply.status != 408:
            _drop(headers, request)
    reply = finish(reply, request_id)
    response = HttpResponse(b"" if method == "HEAD" else reply.body, status=reply.status)
    for name, value in reply.headers:
        response[name] = value
    return response


@cache
def _service(process: int) -> DatabaseTaskService:
    """Return the process's own: connections must not be shared over a fork."""
    using = get_settings().database
    return DatabaseTaskService(using, listen=False, connections=RequestConnections(using))


def _reply(call: Call, content: bytes) -> Reply:
    call.read(content)
    wanted = call.wait.seconds if call.wait is not None else 0.0
    wait = min(wanted, WAIT_SECONDS_MAX)
    received = time.monotonic()
    while (reply := _try(call, received, wait)) is None:
        time.sleep(max(0.0, min(POLL_SECONDS, received + wait - time.monotonic())))
    if wait == wanted:
        return reply
    return replace(reply, headers=(*reply.headers, ("Ledgence-Wait-Limit", f"{WAIT_SECONDS_MAX:g}")))


def _try(call: Call, received: float, wait: float) -> Reply | None:
    """Try; what is busy now is not told to a caller that may wait."""
    held_seconds = time.monotonic() - received
    is_last = held_seconds >= wait
    try:
        return call.try_once(is_last=is_last, held_seconds=held_seconds if wait else 0.0)
    except Busy:
        if is_last:
            raise
        return None


def _take_body(head: Head, request: HttpRequest) -> bytes:
    """Read the body, counted while it arrives; what Django would accept at most does not matter here."""
    deadline = time.monotonic() + body.BODY_SECONDS
    taken = bytearray()
    try:
        while part := request.read(READ_BYTES):
            check_size(head, len(taken) + len(part))
            taken += part
            if time.monotonic() > deadline:
                raise Refused(408, f"The body did not arrive within {body.BODY_SECONDS:g} s.")
    except UnreadablePostError:
        raise Refused(408, "The body did not arrive whole.") from None
    return bytes(taken)


def _drop(headers: Mapping[str, str], request: HttpRequest) -> None:
    """Read what is left of a refused body, if its end is near: a caller that still sends reads no refusal."""
    if not body.has_near_end(headers):
        return
    deadline = time.monotonic() + body.DROPPED_SECONDS
    with suppress(UnreadablePostError):
        while request.read(READ_BYTES) and time.monotonic() < deadline:
            pass
