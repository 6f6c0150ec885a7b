"""The worker's sense of time: monotonic seconds, and waits that a stop cuts short. Tests bring their own."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Measures durations; never the time of day, which belongs to the task service."""

    def monotonic(self) -> float: ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set or the seconds have passed; return whether it is set."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)
