"""The SQS adapter passes the suite for adapters over every broker that is here."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from ledgence.testing.delivery.conformance import AdapterConformance
from ledgence_project.elasticmq import SqsProcess
from ledgence_worker.delivery.sqs.options import SqsOptions
from tests.brokers.conftest import ATTRIBUTES, MakeOptions

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Killed:
    """An outage: the server is killed, and with it go its queues and messages."""

    server: SqsProcess
    name: str

    def begin(self) -> None:
        self.server.kill()

    def end(self) -> None:
        self.server.start()
        self.server.create_queue(self.name, **ATTRIBUTES)


class SqsConformance(AdapterConformance):
    """Over a server that a subclass names, by a fixture ``server``."""

    visibility_seconds: ClassVar[float | None] = 2.0

    @pytest.fixture
    def physical_queue(self, server: SqsProcess, make_options: MakeOptions) -> SqsOptions:
        return make_options(server)

    @pytest.fixture
    def brief_queue(self, server: SqsProcess, make_options: MakeOptions) -> SqsOptions:
        options = make_options(server)
        # No user may ask for so little, and no test waits for what users may.
        object.__setattr__(options, "visibility_timeout_seconds", 2)
        return options

    @pytest.fixture
    def missing_queue(self, server: SqsProcess, physical_queue: SqsOptions) -> SqsOptions:
        return replace(physical_queue, queue_url=f"{physical_queue.queue_url}-missing")

    @pytest.fixture
    def outage(self, server: SqsProcess, physical_queue: SqsOptions) -> Killed:
        return Killed(server, physical_queue.queue_path.rpartition("/")[2])


class TestElasticMQ(SqsConformance):
    @pytest.fixture
    def server(self, elasticmq: SqsProcess) -> SqsProcess:
        return elasticmq


class TestMinistack(SqsConformance):
    @pytest.fixture
    def server(self, ministack: SqsProcess) -> SqsProcess:
        return ministack


class TestMoto(SqsConformance):
    # Two of its receivers at once may get the same message.
    receivers = 1

    @pytest.fixture
    def server(self, moto: SqsProcess) -> SqsProcess:
        return moto
