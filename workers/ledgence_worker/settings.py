"""What one worker process is told at start."""

from dataclasses import dataclass
from typing import Final

from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.limits import CONCURRENCY_MAX, WAIT_SECONDS_MAX, check_range

#: A worker that stops waits so long for what is out, lest a message that comes then is lost for its visibility.
RECEIVE_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a Worker. Times are in seconds.

    ``name`` is for people: the session's identity is made anew at each start. ``queues`` empty means every queue but
    ``exclude_queues``. ``drain`` makes the worker exit once nothing is left to run. Raises InvalidInput.
    """

    name: str
    concurrency: int
    tenant: str
    namespace: str
    queues: tuple[str, ...] = ()
    exclude_queues: tuple[str, ...] = ()
    #: How long running attempts may go on after the first stop signal.
    grace_seconds: float = 25.0
    #: How long the task service may hold a request for work when none is due.
    acquire_wait_seconds: float = WAIT_SECONDS_MAX
    #: How long the broker of a routed queue may hold a request for messages when there are none.
    receive_wait_seconds: float = RECEIVE_WAIT_SECONDS
    drain: bool = False
    #: How long an ended attempt waits for others to be settled with it.
    linger_seconds: float = 0.001
    #: The port of the health pages on the loopback address; 0 chooses a free one, None serves none.
    health_port: int | None = None

    def serves(self, queue: str) -> bool:
        """Whether a queue of this name is among those to serve."""
        return (not self.queues or queue in self.queues) and queue not in self.exclude_queues

    def __post_init__(self) -> None:
        check_identifier(self.name, what="name")
        check_identifier(self.tenant, what="tenant")
        check_identifier(self.namespace, what="namespace")
        for queue in self.queues + self.exclude_queues:
            check_identifier(queue, what="queue")
        if both := set(self.queues) & set(self.exclude_queues):
            raise InvalidInput(f"queues {sorted(both)} are both served and excluded; name each once.")
        check_range("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        check_range("grace_seconds", self.grace_seconds, 0, 86_400)
        check_range("acquire_wait_seconds", self.acquire_wait_seconds, 0, WAIT_SECONDS_MAX)
        check_range("receive_wait_seconds", self.receive_wait_seconds, 0, WAIT_SECONDS_MAX)
        check_range("linger_seconds", self.linger_seconds, 0, 1)
        if self.health_port is not None:
            check_range("health_port", self.health_port, 0, 65_535)
