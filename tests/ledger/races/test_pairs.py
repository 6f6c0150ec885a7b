"""The race table: ordered pairs of operations over tasks in every state, the first stopped after each statement.

What the two answered, and what is in the tables at the end, must be what some order of the two gives, task by task; and
what an operation that was broken off did must not be seen at all.
"""

from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cache, partial

import pytest
from django.db import connections

from ledgence.audit import audit
from ledgence.operations import submit
from ledgence.rollups import Rollups
from ledgence.worker_connections import WorkerConnections
from tests.ledger.actors import USING
from tests.ledger.races.gate import DEADLINE_SECONDS, BrokenOff, Gate
from tests.ledger.races.scene import KEYS, OPERATIONS, SKIPPING, STATES, Answers, Cast, Scene, answers_of
from tests.ledger.rivals import Rival

STOPS_MAX = 20
ORDERS = ((0, 1), (1, 0))
#: What an operation that waits for nobody answers of a task that somebody else holds.
PASSED_OVER = (None, "busy askedFalse", "held")
type Found = tuple[str | None, str | None, str | None]
type Seen = tuple[dict[str, str], Answers, Answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One operation against another; ``broken``: the first does not come to its end."""

    one: str
    other: str
    broken: bool


class Arena:
    """Two connections over one scene, and what the operations give when they do not overlap.

    The first is held after its statements, so it sends each of them alone; the second is of a worker's kind.
    """

    def __init__(self, first: Rival, second: Rival, state: str) -> None:
        self.first, self.second = first, second
        self.scene = Scene(Cast(), state)
        self.untouched = self.scene.snapshot()
        self.alone = cache(self._alone)

    def _run(self, name: str, side: int) -> Answers:
        return answers_of(OPERATIONS[name], self.scene, side, ORDERS[side])

    def _alone(self, name: str, side: int) -> tuple[dict[str, str], Answers]:
        self.scene.restore()
        answers = self.second.do(partial(self._run, name, side))
        return self.scene.snapshot(), answers

    def decides(self, name: str, side: int) -> bool:
        """Whether an operation changes anything here, when nothing else happens."""
        return self.alone(name, side)[0] != self.untouched

    def in_turn(self, pair: Pair) -> Iterator[Seen]:
        """Yield what the two give one after the other, in either order."""
        names = (pair.one, pair.other)
        for sides in ORDERS:
            self.scene.restore()
            answers = {side: self.second.do(partial(self._run, names[side], side)) for side in sides}
            yield self.scene.snapshot(), answers[0], answers[1]

    def race(self, pair: Pair, stop: int) -> Seen | None:
        """Run the first against the second and return what was seen; None when it ended before the stop."""
        self.scene.restore()
        gate = Gate(stop)

        def held() -> Answers:
            try:
                with connections[USING].execute_wrapper(gate):
                    return self._run(pair.one, 0)
            finally:
                gate.arrived.set()

        running = self.first.begin(held)
        assert gate.arrived.wait(DEADLINE_SECONDS)
        if not gate.is_held:
            running.result(DEADLINE_SECONDS)
            return None
        against = self.second.begin(partial(self._run, pair.other, 1))
        while not wait([against], timeout=0.001).done and not self.second.is_blocked():
            pass
        gate.let_go(broken=pair.broken)
        try:
            first = running.result(DEADLINE_SECONDS)
        except BrokenOff:
            first = {}
        second = against.result(DEADLINE_SECONDS)
        return self.scene.snapshot(), first, second

    def judge(self, pair: Pair, seen: Seen, expected: list[Seen]) -> list[str]:
        """Return what is wrong with the outcome of a race: nothing, if one of the expected ones explains it."""
        rows, first, second = seen
        wrong = [f"{v.invariant} {v.ids}" for v in audit(using=USING)]
        for key in sorted({*KEYS, *rows}):
            found = (rows.get(key), first.get(key), second.get(key))
            allowed = [(r.get(key), a.get(key), b.get(key)) for r, a, b in expected]
            if found not in allowed and not self._is_passed_over(pair, key, found):
                wrong.append(f"{key}: {found} is none of {allowed}")
        return wrong

    def _is_passed_over(self, pair: Pair, key: str, found: Found) -> bool:
        """Whether an operation that does not wait to the end left the other's task alone."""
        row, first, second = found
        # A claim that waited for a task which then went to another queue decides nothing.
        is_undecided = (pair.one, pair.other, second) == ("move", "claim", "Busy")
        if is_undecided or (pair.other in SKIPPING and second in PASSED_OVER):
            if pair.broken:
                return row == self.untouched.get(key)
            alone, answers = self.alone(pair.one, 0)
            return (row, first) == (alone.get(key), answers.get(key))
        if pair.one in SKIPPING and not pair.broken and first in PASSED_OVER:
            alone, answers = self.alone(pair.other, 1)
            return (row, second) == (alone.get(key), answers.get(key))
        return False

    def check(self, one: str, *pairs: tuple[str, bool]) -> None:
        """Race an operation at every stop against others, and broken off where told; fail with all that is wrong."""
        wrong, races = [], 0
        for pair in (Pair(one=one, other=other, broken=broken) for other, broken in pairs):
            rows, answers = self.alone(pair.other, 1)
            expected = [(rows, {}, answers)] if pair.broken else list(self.in_turn(pair))
            for stop in range(1, STOPS_MAX):
                if (seen := self.race(pair, stop)) is None:
                    break
                races += 1
                how = f"{one} {'broken off' if pair.broken else 'stopped'} after statement {stop}, against {pair.other}"
                wrong += [f"{how}: {line}" for line in self.judge(pair, seen, expected)]
            else:
                raise AssertionError(f"{one} has {STOPS_MAX - 1} statements or more: raise STOPS_MAX.")
        assert races > 0
        assert not wrong, "\n".join(wrong)


@pytest.fixture
def arena(transactional_db: None, settings, monkeypatch, state: str) -> Iterator[Arena]:
    # One key a statement, so that two calls can meet between two keys.
    monkeypatch.setattr(submit, "BATCH", 1)
    # Counts of minutes that are over would be written after a commit, and what is broken off then is done already.
    monkeypatch.setattr(Rollups, "_write_what_is_left", lambda rollups: None)
    # A wait that ends in Busy would hide a deadlock, and a lease that ends by itself would change the scene.
    settings.LEDGENCE = {
        "LOCK_TIMEOUT_SECONDS": 10,
        "LEASE_SECONDS": 3600,
        "HINTS": False,
        "BACKOFF_INITIAL_SECONDS": 0,
    }
    workers = WorkerConnections(USING)
    with Rival() as first, Rival(workers) as second:
        yield Arena(first, second, state)
    connections[USING].close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", OPERATIONS)
@pytest.mark.parametrize("state", STATES)
def test_every_pair_of_operations_is_explained_by_an_order(arena: Arena, state: str, one: str):
    # Two that only look explain each other in any order.
    others = [other for other in OPERATIONS if arena.decides(one, 0) or arena.decides(other, 1)]
    # What is broken off leaves nothing whatever the state: each operation is met by one, in two of them.
    turn = STATES.index(state)
    broken = [other for place, other in enumerate(others) if (place - turn) % len(STATES) < 2]
    arena.check(one, *((other, False) for other in others), *((other, True) for other in broken))


@pytest.mark.parametrize(
    ("state", "one", "other"),
    [
        ("queued", "acquire", "cancel"),
        ("queued", "cancel", "acquire"),
        ("queued", "claim", "claim"),
        ("queued", "submit", "submit"),
        ("queued", "move", "acquire"),
        ("queued", "acquire", "move"),
        ("queued", "move", "claim"),
        ("queued", "move", "move"),
        ("queued", "set_priority", "set_priority"),
        ("queued", "set_priority", "cancel"),
        ("queued", "cancel", "run_now"),
        ("failed", "requeue", "move"),
        ("active", "settle_success", "cancel"),
        ("active", "cancel", "settle_success"),
        ("active", "cancel", "settle_crash"),
        ("active", "settle_crash", "cancel"),
        ("active", "settle_success", "settle_success"),
        ("active", "settle_success", "settle_failure"),
        ("active", "renew", "cancel"),
        ("expired", "expire", "settle_success"),
        ("expired", "settle_success", "expire"),
        ("expired", "expire", "cancel"),
        ("reclaimed", "settle_stale", "settle_success"),
        ("reclaimed", "force_expire", "settle_success"),
        ("failed", "requeue", "requeue"),
        ("failed", "requeue_same", "requeue_same"),
        ("failed", "requeue", "cancel"),
        ("unpublished", "lease", "claim"),
        ("unpublished", "claim", "lease"),
        ("unpublished", "lease", "lease"),
        ("unpublished", "lease", "give_back"),
        ("publishing", "confirm", "claim"),
        ("publishing", "claim", "confirm"),
        ("publishing", "confirm", "republish"),
        ("publishing", "republish", "confirm"),
    ],
)
def test_the_pairs_that_meet_most_are_explained_by_an_order(arena: Arena, one: str, other: str):
    arena.check(one, (other, False), (other, True))
