"""Tasks: what was submitted, where it is, and everything that happened to it."""

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.admin.base import LedgerAdmin, moment_of
from ledgence.admin.bounds import ENDED, among, narrow_tasks
from ledgence.admin.display import NOTHING, badge, join, json_block, json_column, link, short
from ledgence.admin.explaining import show
from ledgence.admin.facts import TaskFacts, facts_of, find_tasks
from ledgence.admin.filters import QueueFilter, WordFilter
from ledgence.admin.history import NEWEST, describe_publication, find_actions, find_attempts, find_events, outcome_badge
from ledgence.admin.paging import CAP
from ledgence.admin.redaction import data_of, hide, secrets_of
from ledgence.admin.task_actions import CANCEL, COPY, FORCE_EXPIRE, MOVE, REPUBLISH, REQUEUE, RUN_NOW, SET_PRIORITY
from ledgence.admin.timeline import draw
from ledgence.conf import get_settings
from ledgence.explanation import Facts, explain_facts, find_facts
from ledgence.models import Program, Queue, State, Task
from ledgence_worker.errors import NotFound


class StateFilter(WordFilter):
    title = gettext_lazy("state")
    parameter_name = "state"
    words = dict(State.choices)

    def narrow(self, request: HttpRequest, rows: QuerySet[Any], word: str) -> QuerySet[Any]:
        return narrow_tasks(rows, word)


class TaskQueueFilter(QueueFilter):
    def narrow(self, request: HttpRequest, rows: QuerySet[Any], queue_id: int) -> QuerySet[Any]:
        return narrow_tasks(rows, request.GET.get("state"), queue=queue_id)


@admin.register(Task)
class TaskAdmin(LedgerAdmin):
    """The list goes by id, which is by time, or for ended tasks by their end: the orders that indexes give."""

    class Media:
        css = {"all": ["ledgence/task.css"]}

    confirmed = (REQUEUE, COPY, CANCEL, RUN_NOW, MOVE, SET_PRIORITY, REPUBLISH, FORCE_EXPIRE)
    deferred = ("data", "result", "digest")
    list_display = ("task", "state", "program", "queue", "attempts", "submitted", "error", "finished")
    list_filter = (StateFilter, TaskQueueFilter)
    search_fields = ("id",)
    search_help_text = gettext_lazy("A task's id, a correlation key, program:NAME or queue:NAME, each in full.")
    narrowed_note = format_lazy(
        gettext_lazy(
            "Queued, active, failed and cancelled tasks are all found. Succeeded ones are sought in the newest {cap} "
            "attempts; a queue or program, where the state is not queued or active, in the newest {cap} tasks."
        ),
        cap=f"{CAP:,}",
    )
    submitted = moment_of("submitted_at", gettext_lazy("submitted at"))
    finished = moment_of("finished_at", gettext_lazy("finished at"))

    fieldsets = (
        (None, {"fields": (("program_name", "queue_link", "priority"), ("submitted", "finished", "copied_from"))}),
        (
            gettext_lazy("Terms"),
            {
                "classes": ("collapse",),
                "fields": (
                    "id",
                    ("tenant", "namespace"),
                    "entry_point",
                    ("policy", "retry_on"),
                    ("idempotency_key", "correlation_key", "traceparent"),
                    "revision",
                ),
            },
        ),
        (gettext_lazy("Data"), {"classes": ("collapse",), "fields": ("data_text",)}),
        (gettext_lazy("Result"), {"classes": ("collapse",), "fields": ("result_text",)}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj is not None and obj.outcome == State.SUCCEEDED else self.fieldsets[:-1]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("queue", "program", "policy")

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-finished_at", "-pk") if request.GET.get("state") in ENDED else ("-pk",)

    def search(self, request: HttpRequest, rows: Any, term: str) -> Any:
        """Find by one predicate, never by several alternatives: each has its index, together they have none."""
        what, _separator, name = term.partition(":")
        state, using = request.GET.get("state"), get_settings().database
        if what == "program" and name:
            programs = Program.objects.using(using).filter(name=name).values_list("pk", flat=True)
            return narrow_tasks(rows, state, program__in=list(programs))
        if what == "queue" and name:
            queues = Queue.objects.using(using).filter(name=name).values_list("pk", flat=True)
            return narrow_tasks(rows, state, queue__in=list(queues))
        try:
            return rows.filter(pk=UUID(term))
        except ValueError:
            # In no order, or the planner may prefer to walk all tasks in that order.
            return rows.filter(among(Task.objects.filter(correlation_key=term).values("pk")))

    def describe_rows(self, rows: list[Any]) -> list[Any]:
        facts = find_tasks([task.pk for task in rows])
        for task in rows:
            task.facts = facts.get(str(task.pk))
        return rows

    def describe_row(self, row: Any) -> Any:
        try:
            row.known = find_facts(row.pk, using=get_settings().database)
        except NotFound:
            return None
        row.facts = facts_of(row.known)
        row.data_as_written = data_of(row.pk)
        return row

    def get_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        known: Facts = obj.known
        secrets = secrets_of(obj.data_as_written)
        told = explain_facts(replace(known, quoted=partial(hide, secrets=secrets)))
        over_at = known.lease.expires_at if known.lease and known.lease.expires_at <= known.at else None
        attempts = find_attempts(obj.pk, secrets=secrets, lease_over_at=over_at)
        shown = [story.attempt for story in reversed(attempts)]
        since = obj.submitted_at if not shown or shown[0].number == 1 else shown[0].available_at
        is_external = known.queue.is_external or any(attempt.destination for attempt in shown)
        return {
            "summary": join([state_badges(obj.facts), obj.program, self.queue_link(obj)]),
            "explanation": show(told, self.admin_site, request),
            "timeline": draw(shown, since=since, now=known.at, waiting=known.intent, lease_over_at=over_at),
            "attempts": attempts,
            "newest": NEWEST,
            "publication": describe_publication(known),
            "events": find_events(obj.pk) if is_external else [],
            "operator_actions": find_actions(obj.pk),
        }

    @admin.display(description=gettext_lazy("task"))
    def task(self, task: Any) -> Any:
        return short(task.pk)

    @admin.display(description=gettext_lazy("state"))
    def state(self, task: Any) -> Any:
        return state_badges(task.facts)

    @admin.display(description=gettext_lazy("attempts"))
    def attempts(self, task: Any) -> Any:
        return (task.facts and task.facts.last_number) or 0

    @admin.display(description=gettext_lazy("last error"))
    def error(self, task: Any) -> Any:
        facts = task.facts
        if facts is None or facts.last_outcome in (None, "succeeded", "cancelled"):
            return NOTHING
        return facts.error_class.rpartition(".")[2] or outcome_badge(facts.last_outcome)

    @admin.display(description=gettext_lazy("program"))
    def program_name(self, task: Any) -> Any:
        return str(task.program)

    @admin.display(description=gettext_lazy("queue"))
    def queue_link(self, task: Any) -> Any:
        return link(Queue, task.queue_id, task.queue)

    @admin.display(description=gettext_lazy("entry point"))
    def entry_point(self, task: Any) -> Any:
        return task.program.entry_point or _("not known yet: no process that has the program was seen")

    @admin.display(description=gettext_lazy("retried outcomes and exceptions"))
    def retry_on(self, task: Any) -> Any:
        return ", ".join(task.policy.retry_on) or NOTHING

    @admin.display(description=gettext_lazy("copy of"))
    def copied_from(self, task: Any) -> Any:
        return link(Task, task.copy_of, task.copy_of) if task.copy_of else NOTHING

    @admin.display(description=gettext_lazy("data"))
    def data_text(self, task: Any) -> Any:
        return json_block(task.data_as_written, length=len(task.data_as_written))

    @admin.display(description=gettext_lazy("result"))
    def result_text(self, task: Any) -> Any:
        return json_column(Task, task.pk, "result")


def state_badges(facts: TaskFacts | None) -> Any:
    """Render a task's state, and what an operator should know beside it."""
    if facts is None or facts.state is None:
        return NOTHING
    return join(
        [
            # Nobody has authority: not the colour of work that goes well.
            badge("later" if facts.is_expired else facts.state.value, facts.state.label),
            facts.state is State.QUEUED and facts.is_later and badge("later", _("not due")),
            facts.state is State.QUEUED and facts.is_paused and badge("warning", _("queue paused")),
            facts.is_expired and badge("warning", _("lease expired")),
            facts.state is State.ACTIVE and facts.is_cancel_requested and badge("warning", _("asked to stop")),
        ]
    )
