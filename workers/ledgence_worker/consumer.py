"""The consumer: the receiver, claimer and acknowledger of one routed queue, and what their crew asks of all three."""

from collections.abc import Callable, Mapping

from ledgence_worker.acknowledger import Acknowledger
from ledgence_worker.claimer import Claimer
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.receiver import Receiver
from ledgence_worker.shared import Shared


class Consumer:
    """Builds the parts around one queue; each runs on a thread of its crew."""

    def __init__(self, shared: Shared, queue: ConsumedQueue, *, channel: int, sources: int = 1) -> None:
        self.queue = queue
        self._acknowledger = Acknowledger(queue, shared.clock)
        self._claimer = Claimer(shared, queue, self._acknowledger, channel=channel)
        self._receiver = Receiver(shared, queue, self._claimer, sources=sources)
        self.receiving, self.claiming, self.acknowledging = (
            f"{role}-{queue.name}" for role in ("receiver", "claimer", "acknowledger")
        )

    @property
    def threads(self) -> Mapping[str, Callable[[], None]]:
        """What is to run on threads of its own, by their names."""
        return {
            self.receiving: self._receiver.run,
            self.claiming: self._claimer.run,
            self.acknowledging: self._acknowledger.run,
        }

    @property
    def is_in_doubt(self) -> bool:
        """Whether a claim is out that has failed to get an answer."""
        return self._claimer.channel.is_in_doubt

    @property
    def is_resolved(self) -> bool:
        """Whether nothing that was received is left to resolve."""
        return self._claimer.is_idle

    @property
    def answered_at(self) -> float:
        """When the task service last answered."""
        return self._claimer.channel.answered_at

    @property
    def silence(self) -> str:
        """For how long the broker has not answered, and why; empty while that is no longer than it may."""
        return self._receiver.silence

    def end_claims(self) -> None:
        """Claim nothing more: what a receive brings from now on is given back."""
        self._claimer.close()

    def end_acknowledgements(self) -> None:
        """Let the acknowledger end once it has tried everything."""
        self._acknowledger.close()
