"""A session that is short enough to be extended while a test runs."""

import pytest

from ledgence.models import State, WorkerSession
from ledgence_worker.stopping import ExitCode
from tests.faults.http_proxy import Fault, HttpProxy
from tests.faults.remote_site import RemoteSite

pytestmark = [pytest.mark.process, pytest.mark.slow]

SESSION_SECONDS = 6.0


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"ZOO_SESSION_SECONDS": str(SESSION_SECONDS)}


@pytest.mark.parametrize(
    "faults",
    [
        (Fault.LOST_REPLY, Fault.RESET_BEFORE, Fault.PAGE_502_AFTER),
        (Fault.CUT_REQUEST, Fault.REDIRECT, Fault.FOREIGN_503),
        (Fault.LATE_REPLY, Fault.CUT_REPLY, Fault.AT_ONCE),
    ],
    ids=lambda faults: "-".join(faults),
)
def test_it_is_extended_in_time_whatever_happens_on_the_way(
    proxied: RemoteSite, http_proxy: HttpProxy, faults: tuple[Fault, ...]
) -> None:
    http_proxy.inflict("extend", *faults)
    worker = proxied.worker("--answer-timeout", "0.5")
    opened = WorkerSession.objects.get().expires_at
    task = proxied.submit("wait", proxied.gate())
    proxied.wait_until(lambda: not http_proxy.pending(), "every extension")
    proxied.wait_until(lambda: WorkerSession.objects.get().expires_at > opened, "a longer session")
    proxied.open(proxied.gate())
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN
    assert http_proxy.inflicted == [("extend", fault) for fault in faults]
