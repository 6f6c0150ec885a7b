"""Which worker sessions a token may act for: those that serve nothing outside its scope."""

from uuid import UUID

from ledgence.http.endpoint import Request
from ledgence.models import WorkerSession
from ledgence.recent import Recent
from ledgence.tokens import Scope
from ledgence_worker.errors import NotFound

KNOWN_MAX = 4096

#: Tenant, namespace and queues of a session. They never change, so they are read once.
type Serves = tuple[str, str, frozenset[str]]
_known: Recent[tuple[str, UUID], Serves] = Recent(KNOWN_MAX)


def check_session(request: Request, *, may_be_new: bool = False) -> None:
    """Refuse a session outside the token's scope, as if there were none. Raises NotFound."""
    serves = _find(request.using, request.named)
    if serves is None and may_be_new:
        return
    if serves is None or not _is_within(serves, request.caller):
        raise NotFound(f"Worker session {request.named} does not exist in the token's scope; open one.")


def _find(using: str, session_id: UUID) -> Serves | None:
    known = _known.get((using, session_id))
    if known is not None:
        return known
    rows = WorkerSession.objects.using(using).filter(pk=session_id)
    row = rows.values_list("tenant", "namespace", "queues").first()
    if row is None:
        return None
    return _known.get_or_make((using, session_id), lambda: (row[0], row[1], frozenset(row[2])))


def _is_within(serves: Serves, scope: Scope) -> bool:
    tenant, namespace, queues = serves
    if (tenant, namespace) != (scope.tenant, scope.namespace):
        return False
    # A session without queues serves all of them.
    return not scope.queues or (bool(queues) and queues <= scope.queues)
