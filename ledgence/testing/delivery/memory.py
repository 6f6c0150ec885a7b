"""A broker in memory: one physical queue that duplicates, reorders, loses and partly fails on a seed, or as told."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from uuid import UUID

from ledgence.testing.delivery.faults import Call, Counts, Faults
from ledgence.testing.delivery.held import Held, HeldMessages
from ledgence.testing.delivery.memory_ends import MemoryAckQueue, MemoryPublisher
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher, Publication
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable


class Switch:
    """A condition of a broker that holds until it is set back. Who waits for messages notices it at once."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, broker: "MemoryBroker", owner: type) -> bool:
        return getattr(broker, self._name, False)

    def __set__(self, broker: "MemoryBroker", value: bool) -> None:
        with broker.changed:
            setattr(broker, self._name, value)
            broker.changed.notify_all()


class MemoryBroker:
    """One physical queue for the threads of one process. The same seed and order of calls give the same faults."""

    #: Nothing is answered. Messages survive it: call ``lose_all`` as well if they shall not.
    is_down = Switch()
    #: The queue does not exist.
    is_missing = Switch()
    #: Each entry of a publish is answered with a failure, and all other calls with BrokerUnavailable.
    is_throttled = Switch()
    #: Each receipt is answered with a failure, and nothing is done with it.
    refuses_receipts = Switch()

    def __init__(
        self,
        *,
        address: str = "memory",
        seed: int = 0,
        faults: Faults | None = None,
        visibility_seconds: float = 30.0,
        batch_max: int = 10,
        warnings: Sequence[str] = (),
    ) -> None:
        # Who has it may call every method below: it is reentrant.
        self.changed = threading.Condition()
        self.address, self.batch_max, self.visibility_seconds = address, batch_max, visibility_seconds
        self.warnings = tuple(warnings)
        #: Assign others at any time: Faults() ends them all.
        self.faults = faults or Faults()
        self.counts = Counts()
        #: Every entry that the broker took, in its order; lost ones are among them.
        self.sent: list[Publication] = []
        self.held = HeldMessages()
        self.random = Random(seed)
        self._ids = count(1)
        self._refused: set[str] = set()
        self._lost_replies: set[Call] = set()

    def publisher(self) -> DispatchPublisher:
        """Return a publisher to the queue."""
        return MemoryPublisher(self)

    def ack_queue(self) -> AckQueue:
        """Return a receiver from the queue."""
        return MemoryAckQueue(self)

    @property
    def waiting(self) -> int:
        """How many messages can be received now."""
        with self.changed:
            self.land()
            return len(self.held.waiting)

    @property
    def in_flight(self) -> int:
        """How many messages are received, and neither removed nor visible again."""
        with self.changed:
            self.land()
            return self.held.in_flight

    def refuse(self, named: UUID | str) -> None:
        """Refuse from now on each entry that has this publication id, or whose body contains it: a task's, perhaps."""
        with self.changed:
            self._refused.add(str(named))

    def lose_next_reply(self, call: Call = Call.PUBLISH) -> None:
        """Carry out the next call of this kind, and do not let its caller know."""
        with self.changed:
            self._lost_replies.add(call)

    def put(self, *bodies: str) -> None:
        """Add messages as somebody else would: their bodies may be anything, and no fault touches them."""
        with self.changed:
            self.held.waiting.extend(Held(message_id=self.new_id(), body=body) for body in bodies)
            self.changed.notify_all()

    def lose_all(self) -> None:
        """Forget every message, waiting and in flight."""
        with self.changed:
            self.held.clear()
            self.changed.notify_all()

    def end_visibility(self) -> None:
        """Let every message in flight be received again now, as when its visibility is over."""
        with self.changed:
            self.held.land(float("inf"))
            self.changed.notify_all()

    def wait_until(self, condition: Callable[["MemoryBroker"], bool], seconds: float = 10.0) -> bool:
        """Wait until a condition on the broker holds; return whether it does. It is asked after every change."""
        give_up = time.monotonic() + seconds
        with self.changed:
            while not condition(self):
                if time.monotonic() >= give_up:
                    return False
                self.wait_change(give_up)
            return True

    # What follows is for the two ends, which hold ``changed``.

    def begin(self, call: Call) -> None:
        """Count a call, and raise if it fails as a whole."""
        self.counts.calls[call] += 1
        self.changed.notify_all()
        self.check(is_throttled=self.is_throttled and call is not Call.PUBLISH)

    def check(self, *, is_throttled: bool) -> None:
        """Raise if nothing can be asked now."""
        if self.is_down:
            raise BrokerUnavailable(f"The broker of queue {self.address} is down.")
        if self.is_missing:
            raise BrokerRefused(f"The queue {self.address} does not exist.")
        if is_throttled:
            raise BrokerUnavailable(f"The broker of queue {self.address} throttles.")

    def happens(self, rate: float) -> bool:
        """Draw whether a fault happens. Drawn at any rate: another rate leaves the later draws as they are."""
        return self.random.random() < rate

    def loses_reply(self, call: Call) -> bool:
        """Return whether this call's reply is to be lost, once."""
        is_lost = call in self._lost_replies
        self._lost_replies.discard(call)
        return is_lost

    def is_refused(self, publication: Publication) -> bool:
        return any(named in f"{publication.publication_id} {publication.body}" for named in self._refused)

    def new_id(self) -> str:
        return f"message-{next(self._ids)}"

    def land(self) -> None:
        """Let messages wait again whose visibility is over."""
        self.held.land(time.monotonic())

    def wait_change(self, give_up: float) -> None:
        """Wait until something changes, a visibility ends or it is time to give up."""
        end = self.held.next_end()
        self.changed.wait(max(0.0, min(give_up, give_up if end is None else end) - time.monotonic()))
