"""The service manager's notifications (sd_notify), where one listens: ready, stopping, and watchdog beats."""

import logging
import os
import socket
from collections.abc import Mapping

logger = logging.getLogger("ledgence_worker.systemd")


class ServiceManager:
    """Tells systemd about the worker; does nothing when the environment names no NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the abstract namespace, whose names start with a zero byte.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environment.get("WATCHDOG_USEC", "")
        # Twice as often as asked, as sd_watchdog_enabled(3) advises.
        self._beat_seconds = int(watchdog) / 2_000_000 if watchdog.isdecimal() else 0.0
        self._beat_at = 0.0

    def ready(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def beat(self, now: float) -> None:
        """Send a watchdog beat if one is due; called in every turn of the main loop."""
        if self._beat_seconds and now >= self._beat_at:
            self._beat_at = now + self._beat_seconds
            self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            ) as channel:
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            logger.warning("service manager not told state=%s error=%s", state, error)
