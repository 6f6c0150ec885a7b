"""A proxy between the adapter and a broker of each kind; a call that is not answered ends soon."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from ledgence_project.elasticmq import SqsProcess
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher
from ledgence_worker.delivery.sqs.options import SqsOptions
from tests.brokers.conftest import MakeOptions
from tests.brokers.faults.proxy import FaultProxy, fault_proxy

#: What a call waits for an answer.
TIMEOUT_SECONDS = 0.5
#: How late a busy machine may be.
SLACK_SECONDS = 10.0


@pytest.fixture(scope="session", params=["elasticmq", "ministack"])
def server(request: pytest.FixtureRequest) -> SqsProcess:
    server: SqsProcess = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def proxy(server: SqsProcess) -> Iterator[FaultProxy]:
    with fault_proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def options(server: SqsProcess, proxy: FaultProxy, make_options: MakeOptions) -> SqsOptions:
    return make_options(server, url=proxy.url, timeout_seconds=TIMEOUT_SECONDS)


@pytest.fixture
def publisher(options: SqsOptions) -> Iterator[DispatchPublisher]:
    with closing(options.publisher()) as publisher:
        yield publisher


@pytest.fixture
def queue(options: SqsOptions) -> Iterator[AckQueue]:
    with closing(options.ack_queue()) as queue:
        yield queue
