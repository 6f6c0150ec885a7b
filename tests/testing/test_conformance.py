"""The broker in memory passes the suite for adapters; with every fault, the rules that hold of any broker."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from ledgence.testing.delivery import Faults, MemoryBroker
from ledgence.testing.delivery.conformance import AdapterAnswers, AdapterConformance


@dataclass(frozen=True, slots=True)
class MemoryOutage:
    broker: MemoryBroker

    def begin(self) -> None:
        self.broker.is_down = True

    def end(self) -> None:
        self.broker.is_down = False


class TestMemoryBroker(AdapterConformance):
    visibility_seconds: ClassVar[float | None] = 1.0

    @pytest.fixture
    def physical_queue(self) -> MemoryBroker:
        return MemoryBroker(visibility_seconds=60)

    @pytest.fixture
    def brief_queue(self) -> MemoryBroker:
        return MemoryBroker(visibility_seconds=self.visibility_seconds or 0.0)

    @pytest.fixture
    def missing_queue(self) -> MemoryBroker:
        broker = MemoryBroker()
        broker.is_missing = True
        return broker

    @pytest.fixture
    def outage(self, physical_queue: MemoryBroker) -> MemoryOutage:
        return MemoryOutage(physical_queue)


class TestSmallBatches(TestMemoryBroker):
    """A broker that takes one entry at a time is no worse."""

    @pytest.fixture
    def physical_queue(self) -> MemoryBroker:
        return MemoryBroker(visibility_seconds=60, batch_max=1)


class TestWithoutVisibility(TestMemoryBroker):
    """A broker that hides a message until it is acknowledged or given back."""

    visibility_seconds = None


@pytest.mark.parametrize("seed", range(3))
class TestFaultyBroker(AdapterAnswers):
    @pytest.fixture
    def physical_queue(self, seed: int) -> MemoryBroker:
        return MemoryBroker(
            seed=seed,
            faults=Faults(duplicated=0.3, reordered=0.5, lost=0.2, failed=0.3, uncertain=0.3, receipt_failed=0.5),
        )
