"""Routes: a worker serves those that its options cover, and refuses what it could not serve."""

import logging
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from ledgence.testing.delivery import MemoryBroker
from ledgence_worker import routing
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from ledgence_worker.protocol import ExternalQueue, Session
from ledgence_worker.routing import check_routes, needs_acquirer, open_queue, served_routes
from tests.worker.fakes import make_settings
from tests.worker.routed import SpyQueue, make_route

SESSION = Session(
    session_id=uuid4(),
    lease_seconds=60,
    cleanup_seconds=30,
    remaining_seconds=1000,
    tenant="acme",
    namespace="default",
)


def external(*names: str) -> Session:
    return replace(SESSION, external_queues=tuple(ExternalQueue(name=name, destination="memory") for name in names))


def route(queue: str = "far", *, spy: SpyQueue | None = None, **scope: str):
    return make_route(spy or SpyQueue(MemoryBroker()), queue=queue, **scope)


def queue_at(address: str) -> ConsumedQueue:
    return ConsumedQueue(name="far", broker=SpyQueue(MemoryBroker()), address=address)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> str:
    routes = (route("near"), route("far"))
    monkeypatch.setattr(routing, "read_routes", lambda path: routes)
    return "delivery.toml"


@pytest.mark.parametrize(
    ("options", "queues"),
    [
        ({}, ["near", "far"]),
        ({"queues": ("far", "other")}, ["far"]),
        ({"exclude_queues": ("far",)}, ["near"]),
        ({"queues": ("near", "far")}, ["near", "far"]),
    ],
    ids=["all", "named", "excluded", "both"],
)
def test_the_routes_that_the_options_cover_are_served(file: str, options, queues):
    assert [one.queue for one in served_routes(file, make_settings(**options))] == queues


@pytest.mark.parametrize("options", [{"queues": ("other",)}, {"exclude_queues": ("near", "far")}], ids=["named", "not"])
def test_a_file_that_routes_nothing_served_is_refused(file: str, options):
    with pytest.raises(InvalidInput, match="far, near"):
        served_routes(file, make_settings(**options))


def test_without_a_file_nothing_is_routed():
    assert served_routes(None, make_settings()) == ()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput):
        served_routes(str(tmp_path / "none.toml"), make_settings())


def test_a_broker_that_answers_tells_the_address(caplog):
    caplog.set_level(logging.INFO)
    spy = SpyQueue(MemoryBroker(address="arn:far", warnings=["its messages end too soon"]))
    queue = open_queue(route(spy=spy))
    assert (queue.name, queue.broker, queue.address) == ("far", spy, "arn:far")
    assert "its messages end too soon" in caplog.text
    assert "destination=arn:far" in caplog.text


def test_a_broker_that_does_not_answer_is_left_to_the_receiver(caplog):
    spy = SpyQueue(MemoryBroker())
    spy.inspections.append(BrokerUnavailable("down"))
    queue = open_queue(route(spy=spy))
    assert (queue.broker, queue.address, spy.is_closed) == (spy, "", False)
    assert "starts without it queue=far error=down" in caplog.text


def test_a_broker_that_refuses_is_not_asked_again():
    spy = SpyQueue(MemoryBroker())
    spy.inspections.append(BrokerRefused("it is a FIFO queue"))
    with pytest.raises(BrokerRefused, match="FIFO"):
        open_queue(route(spy=spy))
    assert spy.is_closed


@pytest.mark.parametrize("scope", [{}, {"tenant": "acme"}, {"tenant": "acme", "namespace": "default"}])
def test_a_route_of_the_sessions_scope_is_served(scope):
    check_routes([route(**scope)], [], SESSION, make_settings())


@pytest.mark.parametrize("scope", [{"tenant": "other"}, {"namespace": "other"}], ids=["tenant", "namespace"])
def test_a_route_of_another_scope_is_refused(scope):
    with pytest.raises(InvalidInput, match="other.*acme/default"):
        check_routes([route(**scope)], [], SESSION, make_settings())


def test_a_named_queue_whose_work_comes_through_an_unknown_broker_is_refused():
    with pytest.raises(InvalidInput, match="work of near comes.*--delivery-config"):
        check_routes([route("far")], [], external("far", "near"), make_settings(queues=("near", "far")))


def test_one_that_is_not_named_is_told(caplog):
    check_routes([route("far")], [], external("far", "near"), make_settings())
    assert "queue not served" in caplog.text
    assert "queue=near" in caplog.text
    assert "queue=far" not in caplog.text


def test_a_route_that_is_not_active_is_told(caplog):
    check_routes([route("far")], [queue_at("memory")], SESSION, make_settings())
    assert "queue=far" in caplog.text


def test_a_route_that_leads_elsewhere_than_the_ledgers_is_refused(caplog):
    check_routes([route("far")], [queue_at("memory")], external("far"), make_settings())
    assert caplog.text == ""
    with pytest.raises(BrokerRefused, match="far comes through memory.*leads to staging"):
        check_routes([route("far")], [queue_at("staging")], external("far"), make_settings())


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, True),
        ({"exclude_queues": ("near",)}, True),
        ({"queues": ("far", "near")}, True),
        ({"queues": ("far",)}, False),
    ],
    ids=["all", "all but one", "one more", "routed alone"],
)
def test_the_task_service_is_asked_for_work_where_a_queue_without_route_is_served(options, needs):
    assert needs_acquirer([route("far")], make_settings(**options)) is needs
