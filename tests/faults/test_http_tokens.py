"""Tokens and sessions that end under a living worker, and tokens that do not allow it to begin."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ledgence.models import State, WorkerSession
from ledgence.operations.sessions import close_session
from ledgence.tokens import Role
from ledgence_worker.stopping import ExitCode
from tests.faults.remote_site import RemoteSite
from tests.faults.site import SHORT_LEASE_SECONDS, short_lease
from tests.ledger.tokens import revoke

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"LEDGENCE_LEASE_SECONDS": str(SHORT_LEASE_SECONDS)}


def revoked(site: RemoteSite) -> Callable[[], object]:
    token_id, site.token = site.issue(Role.WORK)
    return lambda: revoke(token_id, using=site.alias)


def expired(site: RemoteSite) -> Callable[[], object]:
    # Long enough to start under; the worker's renewals then notice by themselves.
    _, site.token = site.issue(Role.WORK, expires_at=datetime.now(UTC) + timedelta(seconds=6))
    return lambda: None


@short_lease
@pytest.mark.parametrize("end", [revoked, expired], ids=lambda end: end.__name__)
def test_a_worker_whose_token_has_ended_stops_and_another_runs_its_work_again(
    remote: RemoteSite, end: Callable[[RemoteSite], Callable[[], object]]
) -> None:
    housekeeping = remote.start_housekeeping()
    valid, end_token = remote.token, end(remote)
    worker = remote.worker()
    task = remote.submit("beat", remote.gate())
    remote.wait_for_start(task)
    end_token()
    worker.wait_for_log("ERROR .*task service gives no more work .*no valid API token")
    assert worker.wait() == ExitCode.FAILED
    remote.token = valid
    heir = remote.worker()
    remote.wait_for_start(task, 2)
    assert remote.beat_before_next(task, 1)
    remote.open(remote.gate())
    assert remote.wait_for_end(task) is State.SUCCEEDED
    assert remote.ends(task) == [(1, "lost"), (2, "succeeded")]
    assert [one.stop() for one in (heir, housekeeping)] == [ExitCode.CLEAN] * 2


@pytest.mark.parametrize(
    ("roles", "reason"),
    [((Role.SUBMIT, Role.OPERATE), "has operate, submit; this needs work"), ((), "carries no valid API token")],
    ids=["other_roles", "unknown"],
)
def test_a_worker_whose_token_does_not_allow_it_says_so_and_does_not_start(
    remote: RemoteSite, roles: tuple[Role, ...], reason: str
) -> None:
    remote.token = remote.issue(*roles)[1] if roles else f"ldg_{'0' * 16}_{'x' * 43}"
    worker = remote.start_worker()
    assert worker.wait() == ExitCode.CONFIGURATION
    [line] = [line for line in worker.output.splitlines() if "ERROR" in line]
    assert "worker cannot start" in line
    assert reason in line
    assert remote.token not in worker.output


def test_a_worker_without_a_token_says_so_and_does_not_start(remote: RemoteSite) -> None:
    remote.token = ""
    worker = remote.start_worker()
    assert worker.wait() == ExitCode.CONFIGURATION
    assert worker.output == "ledgence-worker: set LEDGENCE_TOKEN to a token with the role work.\n"


def test_a_worker_that_may_not_serve_its_queue_says_so_and_does_not_start(remote: RemoteSite) -> None:
    _, remote.token = remote.issue(Role.WORK, queues=["other"])
    worker = remote.start_worker()
    assert worker.wait() == ExitCode.CONFIGURATION
    assert "is limited to other, without 'zoo'" in worker.output


@short_lease
def test_a_worker_whose_session_somebody_closed_lets_its_work_end_and_takes_no_more(remote: RemoteSite) -> None:
    worker = remote.worker()
    task = remote.submit("wait", remote.gate())
    remote.wait_for_start(task)
    # With its only slot occupied it asks for nothing, so that the settlement is what meets the closed session.
    close_session(WorkerSession.objects.get().pk, using=remote.alias)
    rest = remote.submit("echo")
    remote.open(remote.gate())
    assert remote.wait_for_end(task) is State.SUCCEEDED
    assert worker.wait() == ExitCode.FAILED
    assert "task service gives no more work" in worker.output
    assert (remote.ends(task), rest.state) == ([(1, "succeeded")], State.QUEUED)


def test_an_idle_worker_whose_session_somebody_closed_stops(remote: RemoteSite) -> None:
    worker = remote.start_worker("--acquire-wait", "1")
    worker.wait_until_started()
    close_session(WorkerSession.objects.get().pk, using=remote.alias)
    assert worker.wait() == ExitCode.FAILED
    assert "task service gives no more work" in worker.output
