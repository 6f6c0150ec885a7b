"""The suite that every adapter passes, run by pytest: subclass AdapterConformance in a test module."""

import pytest

# Before they are imported: a failure then shows what was compared, as in one's own test modules.
pytest.register_assert_rewrite(
    "ledgence.testing.delivery.conformance.adapter_case",
    "ledgence.testing.delivery.conformance.answers",
    "ledgence.testing.delivery.conformance.failures",
    "ledgence.testing.delivery.conformance.messages",
)

from ledgence.testing.delivery.conformance.adapter_case import Outage, PhysicalQueue  # noqa: E402
from ledgence.testing.delivery.conformance.answers import AdapterAnswers  # noqa: E402
from ledgence.testing.delivery.conformance.failures import AdapterFailures  # noqa: E402
from ledgence.testing.delivery.conformance.messages import AdapterMessages  # noqa: E402

__all__ = ["AdapterAnswers", "AdapterConformance", "AdapterFailures", "AdapterMessages", "Outage", "PhysicalQueue"]


class AdapterConformance(AdapterAnswers, AdapterMessages, AdapterFailures):
    """Every rule of the ports, for an adapter to a broker that works.

    A subclass is a test class: its name begins with ``Test``. It overrides these fixtures::

        class TestMyAdapter(AdapterConformance):
            visibility_seconds = 2.0

            @pytest.fixture
            def physical_queue(self): ...  # a fresh, empty queue; whatever has publisher() and ack_queue()

            @pytest.fixture
            def brief_queue(self): ...  # another one, whose messages stay hidden for visibility_seconds

            @pytest.fixture
            def missing_queue(self): ...  # a queue that the broker does not have

            @pytest.fixture
            def outage(self, physical_queue): ...  # begin() and end() an outage of the queue's broker

    What a broker cannot do is told by the class attributes of AdapterCase, which change what is expected: no test is
    skipped. Where the broker cannot be reached the tests fail.
    """
