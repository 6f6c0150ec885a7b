"""A scripted server of SQS, options that lead there, and no credentials but those that a test gives."""

import os
from collections.abc import Callable, Iterator

import pytest
from boto3.session import Session

from ledgence_worker.delivery.sqs import ack_queue, publisher
from ledgence_worker.delivery.sqs.ack_queue import SqsAckQueue
from ledgence_worker.delivery.sqs.clients import make_session
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.delivery.sqs.publisher import SqsPublisher
from tests.worker.delivery.sqs.server import SqsServer, serve


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    # Else it is asked over the network.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def local_session() -> Session:
    url = "http://127.0.0.1:1"
    return make_session(SqsOptions(queue_url=f"{url}/q", region="r", endpoint_url=url, local_credentials=True))


@pytest.fixture(autouse=True)
def one_local_session(monkeypatch: pytest.MonkeyPatch, local_session: Session) -> None:
    """Use one session with local credentials: they are all alike, and each reads megabytes of descriptions."""

    def make(options: SqsOptions) -> Session:
        return local_session if options.local_credentials else make_session(options)

    monkeypatch.setattr(publisher, "make_session", make)
    monkeypatch.setattr(ack_queue, "make_session", make)


@pytest.fixture
def server() -> Iterator[SqsServer]:
    with serve() as server:
        yield server


@pytest.fixture
def options(server: SqsServer) -> SqsOptions:
    return SqsOptions(queue_url=server.queue_url, region="eu-west-1", endpoint_url=server.url, local_credentials=True)


@pytest.fixture
def make_publisher() -> Iterator[Callable[[SqsOptions], SqsPublisher]]:
    made: list[SqsPublisher] = []

    def make(options: SqsOptions) -> SqsPublisher:
        made.append(SqsPublisher(options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make_queue() -> Iterator[Callable[[SqsOptions], SqsAckQueue]]:
    made: list[SqsAckQueue] = []

    def make(options: SqsOptions) -> SqsAckQueue:
        made.append(SqsAckQueue(options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(name="publisher")
def default_publisher(options: SqsOptions, make_publisher: Callable[[SqsOptions], SqsPublisher]) -> SqsPublisher:
    return make_publisher(options)


@pytest.fixture
def queue(options: SqsOptions, make_queue: Callable[[SqsOptions], SqsAckQueue]) -> SqsAckQueue:
    return make_queue(options)
