"""Which hints concern a session: those that name a queue it serves, or one that is newer than what is known."""

from uuid import UUID

from ledgence import hints, sql

ID_DIGITS = 10


class ServedQueues:
    """Knows the queues of one process's sessions, so that other queues' commits do not make it look for work."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._served: set[int] = set()
        self._highest = 0
        #: Whether a hint named a queue that did not exist at the last look.
        self.is_outdated = True

    def concern(self, words: set[str]) -> bool:
        """Tell whether a hint's words concern the sessions. Called on the listener's thread; reads no database."""
        if hints.EVERYTHING in words:
            return True
        # Whoever may connect may send a hint of any kind; ids have at most ten digits.
        queues = {int(word) for word in words if word.isdecimal() and len(word) <= ID_DIGITS}
        if any(queue > self._highest for queue in queues):
            self.is_outdated = True
            return True
        return not queues.isdisjoint(self._served)

    def refresh(self, session_id: UUID) -> None:
        """Read the queues again if a hint named a new one."""
        if self.is_outdated:
            self.is_outdated = False
            [(highest, served)] = sql.run("find_served_queues", self._using, {"session": session_id})
            # A hint that comes in between finds its queue above the old highest id.
            self._served = self._served | set(served)
            self._highest = highest
