"""What operators may do to tasks on the pages, and the words for it. The operations stand in ledgence.operations."""

from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ledgence.admin.actions import GONE, MOVED_ON, revision_of
from ledgence.admin.confirmation import ConfirmedAction
from ledgence.admin.facts import TaskFacts, TaskKind, find_tasks, survey_tasks
from ledgence.admin.forms import MoveForm, PriorityForm
from ledgence.admin.selection import Subject, Word
from ledgence.models import OperatorAction, State, Task
from ledgence.operations import operate, reschedule

Kind = OperatorAction.Kind

RUNS_AGAIN = _("Effects outside the database that an earlier attempt had may happen twice.")
#: Of work that is acted on while it is queued.
NOT_AS_SEEN = {"not_queued": _("not queued"), "moved_on": MOVED_ON}

TASKS = Subject(model=Task, parse=UUID, find=find_tasks, survey=survey_tasks)


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
    seen=revision_of,
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
    seen=revision_of,
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
