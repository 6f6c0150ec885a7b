"""Sizes and ranges that both sides of Ledgence enforce, each with the unit in its name."""

from typing import Final

from ledgence_worker.errors import InvalidInput

DATA_BYTES: Final = 1024 * 1024
RESULT_BYTES: Final = 8 * 1024 * 1024
#: What a worker keeps of output, traceback, message and classes, where each byte may take six in JSON, fits in it.
REPORT_BYTES: Final = 512 * 1024
#: A request over HTTP that carries one or more tasks to submit.
SUBMIT_BYTES: Final = 4 * 1024 * 1024
#: One that carries results: 8 MiB of JSON, which as text in JSON may take twice that, and reports.
SETTLE_BYTES: Final = 20 * 1024 * 1024
#: Any other.
COMMAND_BYTES: Final = 1024 * 1024
JSON_DEPTH: Final = 64
IDENTIFIER_BYTES: Final = 128
KEY_BYTES: Final = 255
PRIORITY_MIN: Final = -100
PRIORITY_MAX: Final = 100
CONCURRENCY_MAX: Final = 1024
WAIT_SECONDS_MAX: Final = 20.0
LEASE_SECONDS_MIN: Final = 2.0
#: How many of a broker's messages one command over HTTP claims, or records as refused, each as long as it may be.
MESSAGES_MAX: Final = 32
MESSAGE_ID_CHARACTERS: Final = 255
#: What is kept of a message that cannot be claimed: its beginning, by which people know it again.
REFUSED_BODY_CHARACTERS: Final = 4096
REFUSED_DETAIL_CHARACTERS: Final = 1024
#: What is kept of an attempt's printed output and of its traceback: the end, where the cause stands.
OUTPUT_TAIL_BYTES: Final = 16 * 1024
TRACEBACK_BYTES: Final = 32 * 1024
ERROR_MESSAGE_BYTES: Final = 4 * 1024


def check_range(what: str, value: object, low: float, high: float) -> None:
    """Refuse what is no number from ``low`` to ``high``. Raises InvalidInput."""
    # Written so that NaN, which compares false with everything, is refused.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidInput(f"{what} must be a number from {low:g} to {high:g}, not {value!r}.")
