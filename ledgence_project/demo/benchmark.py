"""The benchmark: what Ledgence costs, measured in one run on a database of its own."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import psycopg

import ledgence
from ledgence_project.demo.drain import drain, grow, idle_statements, latencies, run_worker, warm_up
from ledgence_project.demo.programs import clock
from ledgence_project.demo.remote import RemoteFigures, measure
from ledgence_project.demo.submission import PAYLOAD, sql_limit, submit_bulk, submit_single

if TYPE_CHECKING:
    from ledgence_project.demo.broker import BrokerFigures

GROWN = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one run. Rates are tasks a second; None was not measured."""

    submit_bulk_per_s: float
    submit_single_per_s: float
    sql_limit_per_s: float
    drain_per_s: float
    drain_grown_per_s: float | None
    idle_queries_per_s: float | None
    latency_ms: dict[str, float]
    cpu_us_per_task: dict[str, float]
    slots: int
    tasks: int
    http: RemoteFigures | None = None
    sqs: "BrokerFigures | None" = None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, without the parts that were not asked for."""
        left_out = {name for name in ("http", "sqs") if getattr(self, name) is None}
        return {name: value for name, value in asdict(self).items() if name not in left_out}


def run(
    *,
    using: str,
    outside: psycopg.Connection,
    tasks: int,
    slots: int,
    grown: int,
    idle: float,
    http: bool = False,
    sqs: bool = False,
    say: Callable[[str], object],
) -> Figures:
    """Measure everything, in the scratch database that ``using`` points at."""
    say("submitting")
    bulk = submit_bulk(tasks, using=using)
    single = submit_single(min(tasks, 2000), using=using)
    say("claiming and settling without a worker")
    limit = sql_limit(tasks, using=using)
    with run_worker(slots) as process:
        warm_up(slots, process, using=using)
        say("draining")
        drained, cpu = drain(tasks, process, using=using)
        say("waiting for an idle worker's statements and latency")
        statements = idle_statements(outside, idle, using=using)
        latency = latencies(lambda: ledgence.submit(clock, PAYLOAD).id, process, using=using)
    remote = measure(using=using, outside=outside, tasks=tasks, slots=slots, idle=idle, say=say) if http else None
    through_broker = _measure_sqs(using=using, tasks=tasks, slots=slots, say=say) if sqs else None
    drained_grown = None
    if grown:
        with run_worker(slots) as process:
            warm_up(slots, process, using=using)
            say(f"adding {grown:,} finished tasks")
            grow(grown, using=using)
            drained_grown, _ = drain(tasks, process, using=using)
    return Figures(
        submit_bulk_per_s=round(bulk),
        submit_single_per_s=round(single),
        sql_limit_per_s=round(limit),
        drain_per_s=round(drained),
        drain_grown_per_s=round(drained_grown) if drained_grown else None,
        idle_queries_per_s=statements,
        latency_ms=latency,
        cpu_us_per_task=cpu,
        slots=slots,
        tasks=tasks,
        http=remote,
        sqs=through_broker,
    )


def _measure_sqs(*, using: str, tasks: int, slots: int, say: Callable[[str], object]) -> "BrokerFigures":
    # Imported here alone: it needs boto3, which nothing else of the benchmark does.
    from ledgence_project.demo.broker import measure as measure_sqs

    return measure_sqs(using=using, tasks=tasks, slots=slots, say=say)
