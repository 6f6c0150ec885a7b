"""Workers that are killed at each point of a delivery, or whose claims get no answer; and one with several sources."""

import psycopg
import pytest

from ledgence_worker.stopping import ExitCode
from tests.brokers.faults.proxy import Hold
from tests.brokers.processes.conftest import both_ways, over_database, over_http
from tests.brokers.processes.delivery import MAIL, Delivery
from tests.faults.commit_proxy import CommitProxy, Loss
from tests.faults.http_proxy import EVERY_FAULT, Fault, HttpProxy
from tests.faults.waiting import wait_until
from tests.ledger.actors import expire_leases

pytestmark = [
    pytest.mark.broker,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("publisher"),
]

RECEIVE, DELETE = "ReceiveMessage", "DeleteMessageBatch"
#: Over HTTP a reply that is held back costs a second and no more.
PATIENCE = ("--answer-timeout", "1")


@both_ways
def test_killed_before_it_has_received(delivery: Delivery) -> None:
    hold = Hold(before=False)
    delivery.proxy.spoil(RECEIVE, hold)
    tasks = delivery.submit(2)
    delivery.wait_until_confirmed(tasks)
    victim = delivery.worker()
    wait_until(lambda: hold.held, "the broker to send messages")
    victim.kill()
    delivery.worker()
    delivery.wait_until_succeeded(tasks)


@over_database
def test_killed_between_receive_and_claim(delivery: Delivery) -> None:
    tasks = delivery.submit(2)
    delivery.wait_until_confirmed(tasks)
    with psycopg.connect(delivery.site.url) as other:
        other.execute("SELECT FROM ledgence_deliveryintent FOR UPDATE")
        victim = delivery.worker()
        delivery.site.wait_until(lambda: delivery.site.sessions("ledgence claim", waiting=True), "a claim that waits")
        victim.kill()
    delivery.worker()
    delivery.wait_until_succeeded(tasks)


@over_http
def test_killed_before_its_claim_has_arrived(delivery: Delivery, http_proxy: HttpProxy) -> None:
    tasks = delivery.submit(2)
    delivery.wait_until_confirmed(tasks)
    http_proxy.inflict_by(lambda operation: Fault.RESET_BEFORE if operation == "claim" else None)
    victim = delivery.worker()
    wait_until(lambda: http_proxy.inflicted, "a claim that does not arrive")
    victim.kill()
    http_proxy.inflict_by(lambda operation: None)
    delivery.worker()
    delivery.wait_until_succeeded(tasks)


@both_ways
@pytest.mark.parametrize("program", ["echo", "wait"])
def test_killed_between_claim_and_acknowledgement(delivery: Delivery, program: str) -> None:
    hold = Hold(before=True)
    delivery.proxy.spoil(DELETE, hold)
    victim = delivery.worker()
    gate = delivery.site.gate(f"killed-{victim.pid}")
    task = delivery.site.submit(program, gate)
    delivery.site.wait_for_start(task)
    wait_until(lambda: hold.held, "the acknowledgement")
    if program == "echo":
        delivery.site.wait_for_end(task)
    victim.kill()
    expire_leases()
    delivery.site.open(gate)
    delivery.worker()
    delivery.site.wait_for_end(task)
    ends = {"echo": [(1, "succeeded")], "wait": [(1, "lost"), (2, "succeeded")]}
    assert delivery.site.ends(task) == ends[program]


@over_database
@pytest.mark.parametrize("loss", list(Loss), ids=lambda loss: loss.name.lower())
def test_the_commit_of_a_claim_is_lost(delivery: Delivery, commits: CommitProxy, through: str, loss: Loss) -> None:
    worker = delivery.worker(DATABASE_URL=through)
    commits.lose(loss, "ledgence claim")
    tasks = delivery.submit(4)
    delivery.wait_until_succeeded(tasks)
    assert commits.losses == 1
    # Before its way to the database is closed.
    assert worker.stop() == ExitCode.CLEAN


@over_http
def test_each_claim_meets_a_fault_of_the_way(delivery: Delivery, http_proxy: HttpProxy) -> None:
    for fault in EVERY_FAULT:
        http_proxy.inflict("claim", fault, None)
    worker = delivery.worker(*PATIENCE)
    tasks = []
    while http_proxy.pending():
        tasks += (batch := delivery.submit(2))
        delivery.wait_until_succeeded(batch)
    delivery.wait_until_succeeded(tasks)
    assert worker.is_running


@both_ways
def test_two_external_queues_and_an_integrated_one_side_by_side(delivery: Delivery) -> None:
    # More work of the first than its slots hold, from the start: the others are not to wait for its end.
    gate = delivery.site.gate("much")
    much = delivery.site.submit_many("wait", [gate] * 2 + ["/"] * 200)
    mail = delivery.submit(20, queue=MAIL)
    near = delivery.submit(20, queue="near")
    delivery.worker("--queue", MAIL, "--queue", "near", concurrency=4)
    delivery.wait_until_succeeded(mail)
    delivery.wait_until_succeeded(near)
    delivery.site.open(gate)
    delivery.wait_until_succeeded(much)
    modes = [
        delivery.claimed(tasks).values_list("delivery_mode", flat=True).distinct().get() for tasks in (much, mail, near)
    ]
    assert modes == ["external", "external", "integrated"]
