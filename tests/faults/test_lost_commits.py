"""A COMMIT that is lost, or whose reply is: nobody can tell which, so everything is repeated and happens once."""

import random

import pytest
from django.db import DatabaseError, connections

import ledgence
from ledgence.handle import TaskHandle
from ledgence.models import State, Task, WorkerSession
from ledgence_worker.stopping import ExitCode
from tests.faults.commit_proxy import CommitProxy, Loss
from tests.faults.conftest import database_alias
from tests.faults.site import QUEUE, SHORT_LEASE_SECONDS, Site, short_lease
from tests.faults.worker_process import WorkerProcess
from tests.servers import Server

pytestmark = [pytest.mark.process, pytest.mark.slow]

each_loss = pytest.mark.parametrize("loss", list(Loss), ids=lambda loss: loss.name.lower())
#: The sessions in which a worker takes work and tells ends.
WORK = ("ledgence acquire", "ledgence settle")


@pytest.fixture
def proxied(own_site: Site, proxy: CommitProxy, server: Server) -> Site:
    """The site, with a proxy between its workers and the server; this process goes around it."""
    own_site.url = own_site.url.replace(str(server.port), str(proxy.port))
    return own_site


def finish(site: Site, proxy: CommitProxy, worker: WorkerProcess) -> None:
    assert proxy.losses == 1, "nothing was lost, so nothing was tested"
    assert worker.stop() == ExitCode.CLEAN


@each_loss
def test_submission_is_repeated_under_its_key(own_site: Site, proxy: CommitProxy, server: Server, loss: Loss) -> None:
    through = own_site.url.replace(str(server.port), str(proxy.port)) + "&application_name=submitter"
    proxy.lose(loss, "submitter")
    with database_alias("through", through):

        def submit() -> TaskHandle:
            return ledgence.submit("echo", 1, version="1", queue=QUEUE, using="through", idempotency_key="once")

        with pytest.raises(DatabaseError):
            submit()
        connections["through"].close()
        task = submit()
    assert proxy.losses == 1
    assert task.is_new is (loss is Loss.COMMIT)
    assert list(Task.objects.using("own").values_list("pk", flat=True)) == [task.id]


@each_loss
def test_session_is_opened_once(proxied: Site, proxy: CommitProxy, loss: Loss) -> None:
    proxy.lose(loss, "ledgence session")
    worker = proxied.worker()
    assert WorkerSession.objects.using("own").count() == 1
    finish(proxied, proxy, worker)


@each_loss
def test_acquisition_is_repeated_and_grants_the_same(proxied: Site, proxy: CommitProxy, loss: Loss) -> None:
    worker = proxied.worker(concurrency=2)
    assert proxied.wait_for_end(proxied.submit("echo")) is State.SUCCEEDED
    proxy.lose(loss, *WORK)
    tasks = [proxied.submit("echo", number) for number in range(4)]
    assert all(proxied.wait_for_end(task) is State.SUCCEEDED for task in tasks)
    assert all(proxied.ends(task) == [(1, "succeeded")] for task in tasks)
    finish(proxied, proxy, worker)


@each_loss
def test_settlement_is_repeated_and_accepted_once(proxied: Site, proxy: CommitProxy, loss: Loss) -> None:
    worker = proxied.worker()
    task, following = proxied.submit("wait", proxied.gate()), proxied.submit("echo")
    proxied.wait_for_start(task)
    proxy.lose(loss, *WORK)
    proxied.open(proxied.gate())
    for one in (task, following):
        assert proxied.wait_for_end(one) is State.SUCCEEDED
        assert proxied.ends(one) == [(1, "succeeded")]
    finish(proxied, proxy, worker)


@each_loss
def test_failure_is_settled_once_and_retried_once(proxied: Site, proxy: CommitProxy, loss: Loss) -> None:
    worker = proxied.worker()
    task = proxied.submit("wait-first", proxied.gate("never"), timeout=1.0)
    proxied.wait_for_start(task)
    proxy.lose(loss, *WORK)
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert proxied.ends(task) == [(1, "timed_out"), (2, "succeeded")]
    finish(proxied, proxy, worker)


@each_loss
def test_work_is_given_back_once(proxied: Site, proxy: CommitProxy, loss: Loss) -> None:
    worker = proxied.worker("--grace", "0.1")
    task = proxied.submit("wait", proxied.gate("never"))
    proxied.wait_for_start(task)
    proxy.lose(loss, *WORK)
    assert (worker.stop(), proxy.losses) == (ExitCode.CLEAN, 1)
    assert proxied.ends(task) == [(1, "interrupted")]
    assert task.state is State.QUEUED


@short_lease
def test_renewal_without_answer_is_repeated_in_time(proxied: Site, proxy: CommitProxy) -> None:
    worker = proxied.worker()
    task = proxied.submit("hold-gil", 2 * SHORT_LEASE_SECONDS)
    proxied.wait_for_start(task)
    proxy.lose_any_reply("ledgence renew")
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert proxied.ends(task) == [(1, "succeeded")]
    finish(proxied, proxy, worker)


def test_many_losses_under_load(proxied: Site, proxy: CommitProxy) -> None:
    tasks = [proxied.submit("echo", number) for number in range(300)]
    # Always the same chances; what they meet depends on the threads all the same.
    proxy.lose_often(0.05, random.Random(7))
    worker = proxied.worker("--drain", concurrency=4)
    assert worker.wait() == ExitCode.CLEAN
    assert proxy.losses > 3
    assert [task.result() for task in tasks] == list(range(300))
    assert all(proxied.ends(task) == [(1, "succeeded")] for task in tasks)
