"""How an explanation stands on a task's page: each line with a link to the row that it is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from ledgence.explanation import Explanation, Kind, Target
from ledgence.models import Attempt, DeliveryIntent, Lease, Publisher, Queue, State, Task, WorkerSession
from ledgence.wording import visible

MODELS: dict[Kind, type[Any]] = {
    Kind.TASK: Task,
    Kind.ATTEMPT: Attempt,
    Kind.QUEUE: Queue,
    Kind.INTENT: DeliveryIntent,
    Kind.LEASE: Lease,
    Kind.SESSION: WorkerSession,
    Kind.PUBLISHER: Publisher,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """One line as the page shows it. ``address`` is empty where this user may not see the row."""

    is_blocking: bool
    text: str
    advice: str
    address: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExplanation:
    """An explanation under the question that it answers."""

    question: str
    lines: Sequence[ShownLine]


def show(explanation: Explanation, site: AdminSite, request: HttpRequest) -> ShownExplanation:
    """Return an explanation as the page shows it to this user."""
    return ShownExplanation(
        question=_question(explanation),
        lines=[
            ShownLine(
                is_blocking=line.is_blocking,
                text=visible(line.text),
                advice=visible(line.advice),
                address=_address(line.target, site, request) if line.target else "",
                label=visible(line.target.label) if line.target else "",
            )
            for line in explanation.lines
        ],
    )


def _question(explanation: Explanation) -> str:
    if explanation.state is State.ACTIVE:
        is_held_up = any(line.is_blocking for line in explanation.lines)
        return _("Why does it not end?") if is_held_up else _("Who runs it?")
    if explanation.state in (State.QUEUED, None):
        return _("Why is it not running?")
    return _("How did it end?")


def _address(target: Target, site: AdminSite, request: HttpRequest) -> str:
    model = MODELS[target.kind]
    if not site.is_registered(model) or not request.user.has_perm(f"ledgence.view_{model._meta.model_name}"):
        return ""
    page, args = ("changelist", []) if target.id is None else ("change", [target.id])
    return reverse(f"admin:ledgence_{model._meta.model_name}_{page}", args=args, current_app=site.name)
