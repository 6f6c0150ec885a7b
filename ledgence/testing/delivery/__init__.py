"""A broker in memory that fails as told. The suite that every adapter passes stands in ``conformance``."""

from ledgence.testing.delivery.faults import Call, Counts, Faults
from ledgence.testing.delivery.memory import MemoryBroker

__all__ = ["Call", "Counts", "Faults", "MemoryBroker"]
