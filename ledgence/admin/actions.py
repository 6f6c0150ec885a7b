"""What operators may do on the pages to all but tasks, and the words for it. See task_actions for those."""

from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from ledgence.admin.confirmation import ConfirmedAction
from ledgence.admin.facts import (
    ActionFacts,
    QueueFacts,
    SessionFacts,
    TokenFacts,
    find_operator_actions,
    find_queues,
    find_sessions,
    find_tokens,
)
from ledgence.admin.forms import PauseForm
from ledgence.admin.selection import Subject, Word
from ledgence.models import ApiToken, OperatorAction, Queue, WorkerSession
from ledgence.operations import bulk, queues, sessions, tokens

Kind = OperatorAction.Kind

GONE = {"not_found": _("no longer exists")}
MOVED_ON = _("moved on since you looked")


def _small_id(text: str) -> int:
    """Read the id of a queue or token. Raises ValueError."""
    if not 0 < (pk := int(text)) < 2**31:
        raise ValueError(f"{pk} is not the id of a row")
    return pk


QUEUES = Subject(model=Queue, parse=_small_id, find=find_queues)
SESSIONS = Subject(model=WorkerSession, parse=UUID, find=find_sessions)
ACTIONS = Subject(model=OperatorAction, parse=UUID, find=find_operator_actions)
TOKENS = Subject(model=ApiToken, parse=_small_id, find=find_tokens)


def revision_of(facts: Any) -> int:
    revision: int = facts.revision
    return revision


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
    seen=revision_of,
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
    seen=revision_of,
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
