"""Hears the signals that stop a server process, before the server's own handlers do."""

import logging
import signal
from collections.abc import Callable, Sequence
from types import FrameType

logger = logging.getLogger("ledgence.http")


def call_before(signals: Sequence[signal.Signals], function: Callable[[], None]) -> None:
    """Call a function at these signals, before the handler that the server has set.

    One whose handler Python does not know, as it was set from C, keeps it. An event loop learns of signals by its
    wake-up descriptor, which this leaves alone.
    """
    try:
        for number in signals:
            _chain(number, function)
    except ValueError:
        # Not the main thread, as under some development servers: the waits then last until they are over.
        logger.info("signals not seen: waits are not answered early when this process stops")


def _chain(number: signal.Signals, function: Callable[[], None]) -> None:
    previous = signal.getsignal(number)
    if previous is None:
        # It could not be called after ours.
        logger.info("signal not seen: waits are not answered early at it signal=%s", number.name)
        return

    def handler(signum: int, frame: FrameType | None) -> None:
        function()
        if callable(previous):
            previous(signum, frame)
        elif previous == signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)

    signal.signal(number, handler)
