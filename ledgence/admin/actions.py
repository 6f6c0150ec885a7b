"""What operators may do on the pages, and the words for it. The operations themselves stand in ledgence.operations."""

from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ledgence.admin.confirmation import ConfirmedAction
from ledgence.admin.facts import (
    ActionFacts,
    QueueFacts,
    SessionFacts,
    TaskFacts,
    TaskKind,
    TokenFacts,
    find_operator_actions,
    find_queues,
    find_sessions,
    find_tasks,
    find_tokens,
    survey_tasks,
)
from ledgence.admin.forms import MoveForm, PauseForm, PriorityForm
from ledgence.admin.selection import Subject, Word
from ledgence.models import ApiToken, OperatorAction, Queue, State, Task, WorkerSession
from ledgence.operations import bulk, operate, queues, reschedule, sessions, tokens

Kind = OperatorAction.Kind

RUNS_AGAIN = _("Effects outside the database that an earlier attempt had may happen twice.")
GONE = {"not_found": _("no longer exists")}
MOVED_ON = _("moved on since you looked")
#: Of work that is acted on while it is queued.
NOT_AS_SEEN = {"not_queued": _("not queued"), "moved_on": MOVED_ON}


def _small_id(text: str) -> int:
    """Read the id of a queue or token. Raises ValueError."""
    if not 0 < (pk := int(text)) < 2**31:
        raise ValueError(f"{pk} is not the id of a row")
    return pk


TASKS = Subject(model=Task, parse=UUID, find=find_tasks, survey=survey_tasks)
QUEUES = Subject(model=Queue, parse=_small_id, find=find_queues)
SESSIONS = Subject(model=WorkerSession, parse=UUID, find=find_sessions)
ACTIONS = Subject(model=OperatorAction, parse=UUID, find=find_operator_actions)
TOKENS = Subject(model=ApiToken, parse=_small_id, find=find_tokens)


def _revision(facts: Any) -> int:
    revision: int = facts.revision
    return revision


def _generation(facts: TaskFacts) -> int | None:
    return facts.generation


def _is_in_state(facts: TaskKind) -> Word:
    return _("is %(state)s") % {"state": facts.state.label if facts.state else _("in no state")}


def _judge_requeue(facts: TaskKind) -> Word | None:
    if facts.state in (State.FAILED, State.CANCELLED):
        return None
    if facts.state is State.SUCCEEDED:
        return _("succeeded and is never reopened: requeue it as a copy")
    return _is_in_state(facts)


def _judge_cancel(facts: TaskKind) -> Word | None:
    if facts.state not in (State.QUEUED, State.ACTIVE):
        return _is_in_state(facts)
    return _("was asked to stop before") if facts.is_cancel_requested else None


REQUEUE = ConfirmedAction(
    slug="requeue",
    kind=Kind.REQUEUE,
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
        "moved_on": MOVED_ON,
        "not_terminal": _("queued or active"),
        "succeeded": _("succeeded: requeue as a copy"),
    },
    seen=_revision,
)

COPY = ConfirmedAction(
    slug="requeue-as-copy",
    kind=Kind.COPY,
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


def _judge_run_now(facts: TaskKind) -> Word | None:
    if facts.state is not State.QUEUED:
        return _is_in_state(facts)
    return None if facts.is_later else _("is due already")


def _judge_queued(facts: TaskKind) -> Word | None:
    return None if facts.state is State.QUEUED else _is_in_state(facts)


CANCEL = ConfirmedAction(
    slug="cancel",
    kind=Kind.CANCEL,
    permission="cancel",
    subject=TASKS,
    label=_("Cancel"),
    consequences=[
        _("A queued task ends at once and is not run."),
        _("An active one is asked to stop. It ends cancelled whatever its program does, but what it did stays done."),
    ],
    judge=_judge_cancel,
    perform=operate.cancel_by_operator,
    skipped={**GONE, "terminal": _("ended before"), "moved_on": MOVED_ON},
    remarks={"requested": _("asked to stop")},
    seen=_revision,
)

REPUBLISH = ConfirmedAction(
    slug="republish",
    kind=Kind.REPUBLISH,
    permission="republish",
    subject=TASKS,
    label=_("Republish"),
    consequences=[
        _("The queued generation is announced anew, at once. Earlier announcements of it may still arrive."),
        _("Only one of them is handed out: a task is not run more often by this."),
    ],
    judge=_judge_queued,
    perform=operate.republish,
    skipped=NOT_AS_SEEN,
    seen=_generation,
)

RUN_NOW = ConfirmedAction(
    slug="run-now",
    kind=Kind.RUN_NOW,
    permission="run",
    subject=TASKS,
    label=_("Run now"),
    consequences=[
        _("Work that waits for its time, as a retry does for its backoff, is due at once."),
        _("It runs as soon as a worker is free; a paused queue stays paused."),
    ],
    judge=_judge_run_now,
    perform=reschedule.run_now,
    skipped={**NOT_AS_SEEN, "already": _("due already")},
    seen=_generation,
)

MOVE = ConfirmedAction(
    slug="move",
    kind=Kind.MOVE,
    permission="move",
    subject=TASKS,
    label=_("Move to queue"),
    consequences=[
        _("The queued work waits in the other queue, with its time and priority, and so do its later attempts."),
        _("Workers that serve only the old queue do not get it, and tokens that are for the old one do not see it."),
        _("Between a queue with a broker and one without, it is announced, or not, as the other queue's work is."),
    ],
    judge=_judge_queued,
    perform=reschedule.move,
    skipped={
        **NOT_AS_SEEN,
        "already": _("in that queue already"),
        "no_such_queue": _("no such queue in its tenant and namespace"),
    },
    seen=_generation,
    form=MoveForm,
)

SET_PRIORITY = ConfirmedAction(
    slug="set-priority",
    kind=Kind.SET_PRIORITY,
    permission="prioritize",
    subject=TASKS,
    label=_("Set priority"),
    consequences=[
        _("The queued work is taken before work of a lower priority, and so are its later attempts."),
        _("Of a queue with a broker it has no effect: the broker's order counts there."),
    ],
    judge=_judge_queued,
    perform=reschedule.set_priority,
    skipped={**NOT_AS_SEEN, "already": _("has that priority already")},
    seen=_generation,
    form=PriorityForm,
)

FORCE_EXPIRE = ConfirmedAction(
    slug="force-expire",
    kind=Kind.FORCE_EXPIRE,
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
    kind=Kind.PAUSE,
    permission="pause",
    subject=QUEUES,
    label=_("Pause"),
    consequences=[
        _("Workers get no more work of the queue. Attempts that run go on; new tasks are accepted and wait."),
    ],
    judge=_judge_pause,
    perform=queues.pause,
    skipped={**GONE, "already": _("paused already"), "moved_on": MOVED_ON},
    seen=_revision,
    form=PauseForm,
)

RESUME = ConfirmedAction(
    slug="resume",
    kind=Kind.RESUME,
    permission="pause",
    subject=QUEUES,
    label=_("Resume"),
    consequences=[_("Workers get the queue's work again, and everything that is due may start at once.")],
    judge=_judge_resume,
    perform=queues.resume,
    skipped={**GONE, "already": _("not paused"), "moved_on": MOVED_ON},
    seen=_revision,
)


def _judge_drain(facts: SessionFacts) -> Word | None:
    if facts.is_ended:
        return _("has ended")
    return _("drains already") if facts.is_draining else None


DRAIN = ConfirmedAction(
    slug="drain",
    kind=Kind.DRAIN,
    permission="drain",
    subject=SESSIONS,
    label=_("Drain"),
    consequences=[
        _("The worker gets no more work from now on, and learns of it within a quarter of a lease at most."),
        _("It then stops as after SIGTERM: what runs may finish within its grace, the rest is given back."),
        _("It cannot be undone. Whatever started the worker may start it again, as another session."),
    ],
    judge=_judge_drain,
    perform=sessions.drain,
    skipped={**GONE, "already": _("draining already"), "ended": _("ended before")},
)


def _judge_stop(facts: ActionFacts) -> Word | None:
    return None if facts.is_running else _("does not run")


STOP = ConfirmedAction(
    slug="stop",
    kind=Kind.STOP,
    permission="bulk",
    subject=ACTIONS,
    label=_("Stop"),
    consequences=[
        _("No further chunk of the action is begun. What it has done is not undone; the rows that are left stay."),
    ],
    judge=_judge_stop,
    perform=bulk.stop,
    skipped={**GONE, "already": _("not running")},
)


def _judge_revoke(facts: TokenFacts) -> Word | None:
    return _("was revoked before") if facts.is_revoked else None


REVOKE = ConfirmedAction(
    slug="revoke",
    kind=Kind.REVOKE_TOKEN,
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
