"""What operators may do on the pages, and the words for it. The operations themselves stand in ledgence.operations."""

from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ledgence.admin.confirmation import ConfirmedAction, Subject, Word
from ledgence.admin.facts import QueueFacts, TaskFacts, TokenFacts, find_queues, find_tasks, find_tokens
from ledgence.models import ApiToken, Queue, State, Task
from ledgence.operations import operate, queues, tokens

RUNS_AGAIN = _("Effects outside the database that an earlier attempt had may happen twice.")
GONE = {"not_found": _("no longer exists")}


def _small_id(text: str) -> int:
    """Read the id of a queue or token. Raises ValueError."""
    if not 0 < (pk := int(text)) < 2**31:
        raise ValueError(f"{pk} is not the id of a row")
    return pk


TASKS = Subject(model=Task, parse=UUID, find=find_tasks)
QUEUES = Subject(model=Queue, parse=_small_id, find=find_queues)
TOKENS = Subject(model=ApiToken, parse=_small_id, find=find_tokens)


def _is_in_state(facts: TaskFacts) -> Word:
    return _("is %(state)s") % {"state": facts.state.label if facts.state else _("in no state")}


def _judge_requeue(facts: TaskFacts) -> Word | None:
    if facts.state in (State.FAILED, State.CANCELLED):
        return None
    if facts.state is State.SUCCEEDED:
        return _("succeeded and is never reopened: requeue it as a copy")
    return _is_in_state(facts)


def _judge_cancel(facts: TaskFacts) -> Word | None:
    if facts.state not in (State.QUEUED, State.ACTIVE):
        return _is_in_state(facts)
    return _("was asked to stop before") if facts.is_cancel_requested else None


REQUEUE = ConfirmedAction(
    slug="requeue",
    permission="requeue",
    subject=TASKS,
    label=_("Requeue"),
    consequences=[
        _("Each task becomes ready again at once, with all its attempts anew; its history stays."),
        _("A task that has moved on by the time you confirm is left as it is."),
        RUNS_AGAIN,
    ],
    judge=_judge_requeue,
    perform=operate.requeue,
    skipped={
        **GONE,
        "moved_on": _("moved on since you looked"),
        "not_terminal": _("queued or active"),
        "succeeded": _("succeeded: requeue as a copy"),
    },
    seen=lambda facts: facts.revision,
)

COPY = ConfirmedAction(
    slug="requeue-as-copy",
    permission="requeue",
    subject=TASKS,
    label=_("Requeue as copy"),
    consequences=[
        _("A new task is made of each, with the same program, data and policy, and linked to it; the old one stays."),
        _("The copy has no idempotency key. If the old task runs or ran, both take effect."),
    ],
    judge=lambda facts: None,
    perform=operate.requeue_as_copy,
    skipped=GONE,
)

CANCEL = ConfirmedAction(
    slug="cancel",
    permission="cancel",
    subject=TASKS,
    label=_("Cancel"),
    consequences=[
        _("A queued task ends at once and is not run."),
        _("An active one is asked to stop. It ends cancelled whatever its program does, but what it did stays done."),
    ],
    judge=_judge_cancel,
    perform=operate.cancel_by_operator,
    skipped={**GONE, "terminal": _("ended before")},
    remarks={"requested": _("asked to stop")},
)

REPUBLISH = ConfirmedAction(
    slug="republish",
    permission="republish",
    subject=TASKS,
    label=_("Republish"),
    consequences=[
        _("The queued generation is announced anew, at once. Earlier announcements of it may still arrive."),
        _("Only one of them is handed out: a task is not run more often by this."),
    ],
    judge=lambda facts: None if facts.state is State.QUEUED else _is_in_state(facts),
    perform=operate.republish,
    skipped={"not_queued": _("not queued")},
)

FORCE_EXPIRE = ConfirmedAction(
    slug="force-expire",
    permission="expire",
    subject=TASKS,
    label=_("Force-expire lease"),
    consequences=[
        _("The attempt ends as lost, and its worker's result will be refused. The task is tried again or fails."),
        _("The program may still be running: nothing stops it, and it may go on beside the next attempt."),
        RUNS_AGAIN,
    ],
    judge=lambda facts: None if facts.state is State.ACTIVE else _is_in_state(facts),
    perform=operate.force_expire,
    skipped={"not_active": _("not active"), "moved_on": _("another attempt since you looked")},
    seen=lambda facts: facts.lease_number,
)


def _judge_pause(facts: QueueFacts) -> Word | None:
    return _("is paused already") if facts.is_paused else None


def _judge_resume(facts: QueueFacts) -> Word | None:
    return None if facts.is_paused else _("is not paused")


PAUSE = ConfirmedAction(
    slug="pause",
    permission="pause",
    subject=QUEUES,
    label=_("Pause"),
    consequences=[
        _("Workers get no more work of the queue. Attempts that run go on; new tasks are accepted and wait."),
    ],
    judge=_judge_pause,
    perform=queues.pause,
    skipped={**GONE, "already": _("paused already")},
)

RESUME = ConfirmedAction(
    slug="resume",
    permission="pause",
    subject=QUEUES,
    label=_("Resume"),
    consequences=[_("Workers get the queue's work again, and everything that is due may start at once.")],
    judge=_judge_resume,
    perform=queues.resume,
    skipped={**GONE, "already": _("not paused")},
)


def _judge_revoke(facts: TokenFacts) -> Word | None:
    return _("was revoked before") if facts.is_revoked else None


REVOKE = ConfirmedAction(
    slug="revoke",
    permission="revoke",
    subject=TOKENS,
    label=_("Revoke"),
    consequences=[
        _("Requests with the token are refused within a second. This cannot be undone: issue another one instead."),
        _("A worker that uses it loses its leases as they expire, and its running attempts may happen twice."),
    ],
    judge=_judge_revoke,
    perform=tokens.revoke_by_operator,
    skipped={**GONE, "already": _("revoked before")},
)
