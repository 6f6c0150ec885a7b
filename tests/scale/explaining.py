"""Plans of the named statements, as an operation sends them: with its parameters, on its connection."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from django.db import connections, transaction

from ledgence import sql
from ledgence.sql.batch import Batch
from ledgence.sql.text import bind
from tests.ledger.actors import USING, execute

EXPLAIN = "explain (analyze, buffers, timing off, format json) "
#: Tables that grow with work; a scan of one costs more every day.
GROWING = frozenset({"ledgence_task", "ledgence_attempt", "ledgence_deliveryintent", "ledgence_lease"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One statement that was planned and run, and what it cost."""

    statement: str
    parameters: Mapping[str, Any] | None
    plan: Mapping[str, Any]
    #: Whether the operation sent it in a batch, as one of the statements that a worker's connection has prepared.
    is_batched: bool

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        pending = [self.plan]
        while pending:
            node = pending.pop()
            yield node
            pending += node.get("Plans", [])

    @property
    def scanned(self) -> set[str]:
        """The growing tables that were read from end to end."""
        return {n["Relation Name"] for n in self.nodes() if n["Node Type"] == "Seq Scan"} & GROWING

    @property
    def indexes(self) -> set[str]:
        """The indexes of growing tables that were used."""
        return {n["Index Name"] for n in self.nodes() if "Index Name" in n and _is_growing(n["Index Name"])}

    @property
    def blocks(self) -> int:
        """Count the 8 KiB pages that were looked at. A page counts each time; those of foreign keys are left out."""
        return sum(map(_own_blocks, self.nodes()))

    @property
    def removed(self) -> int:
        """Count the rows of growing tables that were read and then not wanted."""
        kinds = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        read = [n for n in self.nodes() if n.get("Relation Name") in GROWING]
        return sum(round(sum(n.get(kind, 0) for kind in kinds) * n["Actual Loops"]) for n in read)

    def __str__(self) -> str:
        lines = [f"{self.statement}: {self.blocks} blocks, {self.removed} rows removed"]
        for node in self.nodes():
            where = node.get("Index Name") or node.get("Relation Name") or node.get("CTE Name") or ""
            blocks = f"blocks={_own_blocks(node)} removed={node.get('Rows Removed by Filter', 0)}"
            lines.append(f"  {node['Node Type']} {where} rows={node['Actual Rows']}x{node['Actual Loops']} {blocks}")
        return "\n".join(lines)


def _is_growing(index: str) -> bool:
    return index.startswith(tuple(f"{table}_" for table in GROWING) + ("ledgence_intent_",))


def _own_blocks(node: Mapping[str, Any]) -> int:
    """Return what a node read itself. A CTE's scan repeats what the CTE's own node tells."""
    if node["Node Type"] in ("CTE Scan", "WorkTable Scan"):
        return 0
    return max(0, _blocks(node) - sum(_blocks(part) for part in node.get("Plans", [])))


def _blocks(node: Mapping[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


@contextmanager
def explained(using: str = USING) -> Iterator[list[Explained]]:
    """Explain each named statement that operations run on a database, just before it is run.

    On a worker's connection each is planned as a prepared one, whether or not its operation sends it so.
    """
    plans: list[Explained] = []
    run, send = sql.run, sql.send

    def explain_and_run(name: str, using: str, parameters: Mapping[str, Any] | None = None) -> sql.Rows:
        plans.append(explain(name, parameters, is_batched=False, using=using))
        return run(name, using, parameters)

    def explain_and_send(name: str, using: str, parameters: Mapping[str, Any]) -> Callable[[], sql.Rows]:
        batch = getattr(connections[using], "batch", None)
        if batch is not None:
            # What was sent before is what this statement will find.
            batch.flush()
            plans.append(explain(name, parameters, is_batched=True, using=using))
        return send(name, using, parameters)

    with patch.object(sql, "run", explain_and_run), patch.object(sql, "send", explain_and_send):
        yield plans


def explain(name: str, parameters: Mapping[str, Any] | None, *, is_batched: bool, using: str) -> Explained:
    """Run a statement, read its plan, and take its effects back."""
    with _undone(using):
        if getattr(connections[using], "can_batch", False):
            answer = _explain_prepared(name, parameters or {}, using=using)
        else:
            answer = _explain_written(name, parameters, using=using)
    return Explained(statement=name, parameters=parameters, plan=answer[0]["Plan"], is_batched=is_batched)


def _explain_prepared(name: str, parameters: Mapping[str, Any], *, using: str) -> Any:
    """Explain a statement as a batch calls it, by the plan that was made for any parameters."""
    batch = Batch(connections[using])
    fetch = batch.add(name, parameters)
    batch._waiting = [(name, EXPLAIN + call, answer) for _, call, answer in batch._waiting]
    before = _generic_plans(name, using)
    [(answer,)] = fetch()
    assert _generic_plans(name, using) > before, f"{name} was planned for its parameters"
    return answer


def _explain_written(name: str, parameters: Mapping[str, Any] | None, *, using: str) -> Any:
    """Explain a statement as a connection of the project's sends it, with its parameters in its text."""
    with connections[using].cursor() as cursor:
        cursor.execute(EXPLAIN + sql.text(name), None if parameters is None else bind(parameters))
        [(answer,)] = cursor.fetchall()
    return answer


def rehearse(plans: Iterable[Explained], *, using: str = USING) -> None:
    """Prepare and plan statements on this connection: send them in a batch, and take their effects back."""
    for plan in plans:
        with _undone(using):
            Batch(connections[using]).add(plan.statement, plan.parameters or {})()


@contextmanager
def _undone(using: str) -> Iterator[None]:
    with transaction.atomic(using=using):
        yield
        transaction.set_rollback(True, using=using)


def _generic_plans(name: str, using: str) -> int:
    """Count how often this connection used the plan that the server made of a statement for any parameters."""
    rows = execute("select generic_plans from pg_prepared_statements where name = %s", [name], using=using)
    return rows[0][0] if rows else 0
