"""Two workers over HTTP, thousands of tasks, and faults by chance all the while."""

import random

import pytest

from ledgence.models import Attempt, Task
from ledgence_worker.stopping import ExitCode
from tests.faults.http_proxy import EVERY_FAULT, Fault, HttpProxy
from tests.faults.remote_site import RemoteSite

pytestmark = [pytest.mark.process, pytest.mark.slow]

TASKS = 3000
SHARE = 0.08
#: Each costs its whole deadline, so they are rare.
LATE = (Fault.LATE_REPLY, Fault.LATE_REQUEST)
LATE_SHARE = 0.004


def test_many_faults_under_load(proxied: RemoteSite, http_proxy: HttpProxy) -> None:
    # Always the same chances; what they meet depends on the threads all the same.
    chance = random.Random(7)
    quick = [fault for fault in EVERY_FAULT if fault not in LATE]

    def choose(operation: str) -> Fault | None:
        drawn = chance.random()
        if drawn < LATE_SHARE:
            return chance.choice(LATE)
        return chance.choice(quick) if drawn < SHARE else None

    tasks = [proxied.submit("echo", number) for number in range(TASKS)]
    http_proxy.inflict_by(choose)
    options = ("--answer-timeout", "1", "--acquire-wait", "0.5")
    workers = [proxied.start_worker(*options, concurrency=4) for _ in range(2)]
    proxied.wait_until(lambda: not Task.objects.filter(outcome=None).exists(), "everything to end", 100)
    assert [worker.stop() for worker in workers] == [ExitCode.CLEAN] * 2
    assert len(http_proxy.inflicted) > 50
    assert [task.result() for task in tasks] == list(range(TASKS))
    assert set(Attempt.objects.values_list("number", "outcome")) == {(1, "succeeded")}
