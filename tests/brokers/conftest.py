"""One server of each kind for a whole run, with a new queue for each test, and no credentials but made-up ones."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from boto3.session import Session

from ledgence_project.elasticmq import ElasticMQ, SqsProcess
from ledgence_worker.delivery.sqs import ack_queue, publisher
from ledgence_worker.delivery.sqs.clients import make_session
from ledgence_worker.delivery.sqs.options import SqsOptions
from tests.brokers.emulators import Ministack, Moto

#: A queue that the adapter has nothing to warn of; visibility is asked for with each receive.
ATTRIBUTES = {"VisibilityTimeout": 60}


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
    """Use one session: all are alike, and each reads megabytes of descriptions."""
    for module in (publisher, ack_queue):
        monkeypatch.setattr(module, "make_session", lambda options: local_session)


@pytest.fixture(scope="session")
def elasticmq() -> Iterator[ElasticMQ]:
    with ElasticMQ() as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[Ministack]:
    with Ministack() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    with Moto() as server:
        yield server


@pytest.fixture(scope="session")
def queue_names() -> Iterator[str]:
    """Names that no queue of this run's servers has."""
    return (f"queue-{n}" for n in itertools.count())


type MakeOptions = Callable[..., SqsOptions]


@pytest.fixture
def make_options(queue_names: Iterator[str]) -> MakeOptions:
    """Make a queue on a server, and return the options that lead there; over a proxy's address, perhaps."""

    def make(server: SqsProcess, *, url: str | None = None, timeout_seconds: float = 5.0) -> SqsOptions:
        return SqsOptions(
            queue_url=server.create_queue(next(queue_names), **ATTRIBUTES),
            region=server.region,
            endpoint_url=url or server.url,
            local_credentials=True,
            operation_timeout_seconds=timeout_seconds,
        )

    return make
