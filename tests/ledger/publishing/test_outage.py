"""An outage of a broker: when it is probed, and what is told of it."""

import logging

import pytest

from ledgence.operations.routes import QueueName
from ledgence.publishing.outage import LONGEST_SECONDS, Outage

NAME = QueueName(tenant="t", namespace="n", queue="q")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_it_is_told_ever_more_rarely_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ledgence.publishing")
    outage = Outage(NAME)
    for _ in range(9):
        outage.note_failure("down")
    outage.note_answer()
    outage.note_answer()
    assert told(caplog) == [
        *(f"broker does not answer queue=t/n/q tries={tries} error=down" for tries in (1, 2, 4, 8)),
        "broker answers again queue=t/n/q tries=9",
    ]
    assert (outage.is_on, outage.failure) == (False, "")


def test_another_reason_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(NAME)
    for failure in ("down", "down", "down", "no queue", "no queue", "", ""):
        outage.note_failure(failure)
    assert [line.partition("tries=")[2] for line in told(caplog)] == [
        "1 error=down",
        "2 error=down",
        "4 error=no queue",
        "6 error=no reason told",
    ]


def test_it_is_probed_within_seconds_however_long_it_lasts() -> None:
    outage = Outage(NAME)
    for _ in range(200):
        outage.note_failure("down")
    before = outage.probe_at
    outage.note_failure("down")
    assert outage.probe_at - before <= LONGEST_SECONDS
