"""What the search for due work reads while its head is full of what it cannot take."""

from collections.abc import Iterator

import pytest

from tests.ledger.actors import USING, Worker, execute, submit_task, submit_tasks
from tests.ledger.rivals import Rival
from tests.scale.connecting import WorkerConnection
from tests.scale.explaining import Explained, explained
from tests.scale.filling import fill_due

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.usefixtures("own_database", "connection")]

WANTED = 32


@pytest.fixture
def connection() -> Iterator[None]:
    """Search as a worker does, on an empty ledger."""
    execute("truncate ledgence_task, ledgence_deliveryintent cascade")
    with WorkerConnection() as worker, worker.used():
        yield


@pytest.fixture
def now(monkeypatch) -> list[float]:
    moment = [0.0]
    monkeypatch.setattr("ledgence.operations.due.time.monotonic", lambda: moment[0])
    return moment


def search(worker: Worker) -> tuple[list, Explained]:
    """Look once for due work; return what was found and the plan of the one statement."""
    with explained() as plans:
        found = worker.search.find(worker.session_id, WANTED, using=USING)
    [plan] = plans
    return found, plan


@pytest.mark.parametrize("dead", [20_000, 100_000])
def test_an_old_snapshot_costs_one_search_a_second(dead: int, now: list[float]) -> None:
    worker = Worker()
    fill_due(like=submit_task(), count=dead)
    live = submit_tasks(4 * WANTED)
    with Rival() as reader, reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from ledgence_queue")
        execute("delete from ledgence_deliveryintent where task_id <> all(%s::uuid[])", [live])
        execute("vacuum ledgence_deliveryintent")
        found, first = search(worker)
        assert (first.statement, found) == ("find_due", live[:WANTED])
        assert first.blocks > dead / 4, f"the dead rows were not in the way: {first}"
        now[0] += 0.9
        found, marked = search(worker)
        assert (marked.statement, found) == ("find_due_from", live[:WANTED])
        assert marked.blocks < 50, str(marked)
        late = submit_task()
        execute("update ledgence_deliveryintent set available_at = now() - interval '1 d' where task_id = %s", [late])
        assert late not in search(worker)[0]
        now[0] += 0.1
        found, rescan = search(worker)
        assert (rescan.statement, found) == ("find_due", [late, *live[: WANTED - 1]])


def test_a_head_of_foreign_programs_costs_one_search_a_second(now: list[float]) -> None:
    worker = Worker()
    foreign = 100_000
    fill_due(like=submit_task(program="tests.foreign"), count=foreign)
    execute("vacuum analyze ledgence_deliveryintent")
    # The index holds the programs: their rows are not read.
    found, first = search(worker)
    assert found == []
    assert first.blocks < foreign / 50, str(first)
    known = submit_tasks(3)
    now[0] += 0.9
    found, marked = search(worker)
    assert found == known
    assert marked.blocks < 50, str(marked)
    assert marked.removed == 0, str(marked)
    now[0] += 0.1
    found, rescan = search(worker)
    assert found == known
    assert rescan.removed > foreign / 2, f"it was not read again: {rescan}"
