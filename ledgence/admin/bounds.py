"""How lists stay cheap: a small table, or the newest rows of a large one, is read first; the large one is probed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.models import F, Model, QuerySet, Subquery
from django.db.models.lookups import Lookup

from ledgence.admin.paging import CAP
from ledgence.conf import get_settings
from ledgence.models import Attempt, DeliveryIntent, Lease, State, Task

if TYPE_CHECKING:
    # Generic for the type checker only.
    Condition = Lookup[bool]
else:
    Condition = Lookup

ENDED = (State.FAILED, State.CANCELLED)
#: How many rows are read to look others up. More than CAP only where more rows than a list shows are acted on.
reach: ContextVar[int] = ContextVar("reach", default=CAP)


@contextmanager
def reaching(rows: int) -> Iterator[None]:
    """Let the filters of lists that are evaluated in the block read so many rows."""
    token = reach.set(rows)
    try:
        yield
    finally:
        reach.reset(token)


class AnyOf(Condition):
    """``column = any(array(subquery))``: the subquery runs first and once, whatever the statistics say of its size.

    An ``in`` becomes a join, which PostgreSQL may turn round: it then walks the large table to look each row up.
    """

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, column_parameters = self.process_lhs(compiler, connection)
        subquery, parameters = self.process_rhs(compiler, connection)
        return f"{column} = any(array{subquery})", (*column_parameters, *parameters)


def among(ids: QuerySet[Any, Any], column: str = "pk") -> AnyOf:
    """Return the condition that a column is among ids, of which at most CAP + 1 are read (see reaching())."""
    return AnyOf(F(column), Subquery(ids[: reach.get() + 1]))


def newest(model: type[Model]) -> AnyOf:
    """Return the condition that a row is among the newest of its table: what columns without an index are sought in."""
    return among(model._default_manager.order_by("-pk").values("pk"))


def count_each(*querysets: QuerySet[Any, Any], cap: int) -> list[int]:
    """Count the rows of each queryset in one statement; cap + 1 means more than the cap."""
    connection = connections[get_settings().database]
    # One that is put together from several, each with its own limit, is counted as it stands.
    counted = [
        (rows if rows.query.combinator else rows.order_by().values("pk"))[: cap + 1].query.sql_with_params()
        for rows in querysets
    ]
    columns = [f"(select count(*) from ({statement}) counted)" for statement, _parameters in counted]  # noqa: S608 - made by the ORM
    with connection.cursor() as cursor:
        cursor.execute(f"select {', '.join(columns)}", [one for _, parameters in counted for one in parameters])
        return list(cursor.fetchone())


def narrow_tasks(tasks: QuerySet[Task], state: str | None, **condition: Any) -> QuerySet[Task]:
    """Narrow tasks to a state and to conditions on queue or program, never by a scan.

    Queued and active tasks are found by their intents and leases, failed and cancelled ones by their partial index,
    succeeded ones by the newest attempts. Where no index knows the condition it is sought among the newest CAP tasks.
    """
    if state == State.QUEUED:
        return tasks.filter(among(DeliveryIntent.objects.filter(**condition).order_by("-pk").values("pk")))
    if state == State.ACTIVE:
        return tasks.filter(among(Lease.objects.filter(**condition).order_by("-pk").values("pk")))
    if state == State.SUCCEEDED:
        done = Attempt.objects.filter(newest(Attempt), outcome=state).values("task")
        return tasks.filter(among(done), outcome=state, **condition)
    if state in ENDED:
        ended = tasks.filter(outcome=state)
        latest = Task.objects.filter(outcome=state).order_by("-finished_at", "-pk").values("pk")
        return ended.filter(among(latest), **condition) if condition else ended
    return tasks.filter(newest(Task), **condition) if condition else tasks
