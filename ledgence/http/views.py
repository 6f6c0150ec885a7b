"""The task service as a Django view: a waiting request holds its thread, so waits are cut to a second."""

import os
import time
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
from ledgence.http.routing import Head, check_size, read_head
from ledgence.service import DatabaseTaskService
from ledgence.worker_connections import RequestConnections

WAIT_SECONDS_MAX = 1.0
#: How often a request that waits looks again.
POLL_SECONDS = 0.25
READ_BYTES = 64 * 1024


@transaction.non_atomic_requests(using=get_settings().database)
@csrf_exempt
def answer(request: HttpRequest, path: str) -> HttpResponse:
    """Answer one request of the API. Tokens authenticate it, not sessions, so it needs no CSRF token."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        head = read_head(str(request.method), path, request.META.get("QUERY_STRING", ""), headers)
        reply = _reply(Call(_service(os.getpid()), head), head, request)
    except Exception as error:
        reply = explain(error)
    reply = finish(reply, request_id_of(headers))
    content = b"" if request.method == "HEAD" else reply.body
    response = HttpResponse(content, status=reply.status)
    for name, value in reply.headers:
        response[name] = value
    return response


@cache
def _service(process: int) -> DatabaseTaskService:
    """Return the process's own: connections must not be shared over a fork."""
    using = get_settings().database
    return DatabaseTaskService(using, listen=False, connections=RequestConnections(using))


def _reply(call: Call, head: Head, request: HttpRequest) -> Reply:
    call.admit()
    call.read(_take_body(head, request))
    wanted = call.wait.seconds if call.wait is not None else 0.0
    wait = min(wanted, WAIT_SECONDS_MAX)
    deadline = time.monotonic() + wait
    while (reply := call.try_once(is_last=(left := deadline - time.monotonic()) <= 0)) is None:
        time.sleep(max(0.0, min(POLL_SECONDS, left)))
    if wait == wanted:
        return reply
    return replace(reply, headers=(*reply.headers, ("Ledgence-Wait-Limit", f"{WAIT_SECONDS_MAX:g}")))


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
