"""The threads that serve one session beside the main loop: sources of work, settler, renewer. None dies silently."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from ledgence_worker.acquirer import Acquirer
from ledgence_worker.authority import Authority
from ledgence_worker.consumed_queue import ConsumedQueue
from ledgence_worker.consumer import Consumer
from ledgence_worker.errors import (
    SESSION_REFUSALS,
    BrokerRefused,
    ExternalDispatchRequired,
    InvalidInput,
    LedgenceError,
)
from ledgence_worker.loop import Loop
from ledgence_worker.patience import Forced
from ledgence_worker.pool import Pool
from ledgence_worker.renewal import Renewer
from ledgence_worker.settler import Settler
from ledgence_worker.shared import Shared
from ledgence_worker.stopping import ExitCode, Phase

logger = logging.getLogger("ledgence_worker.crew")

#: How long the ends that are known already may take to be told when the worker is forced to stop.
FORCED_FLUSH_SECONDS = 1.0
JOIN_SECONDS = 5.0
#: How long a receiver that is not at its broker may take to end.
RECEIVER_SECONDS = 0.2

#: The acquirer's channel is 0 and the settler's 1.
FIRST_CLAIM_CHANNEL = 2


class Crew:
    """Runs one session until it is drained or forced to stop. Belongs to the main thread.

    Work comes from the task service, unless the worker does not acquire, and from the brokers of routed queues.
    """

    def __init__(
        self, shared: Shared, pool: Pool, queues: Sequence[ConsumedQueue] = (), *, acquires: bool = True
    ) -> None:
        self._shared = shared
        sources = len(queues) + acquires
        self._acquirer = Acquirer(shared, sources=sources) if acquires else None
        self._consumers = [
            Consumer(shared, queue, channel=channel, sources=sources)
            for channel, queue in enumerate(queues, FIRST_CLAIM_CHANNEL)
        ]
        # A refill takes slots out of turn, which would starve other sources.
        self._settler = Settler(shared, refills=acquires and not queues)
        self.loop = Loop(shared, pool, self._settler.queue)
        self._renewals_end = threading.Event()
        self._renewer = Renewer(shared, self._renewals_end)
        self._threads = {
            name: threading.Thread(target=self._guard, args=(name, run), name=f"ledgence-{name}", daemon=True)
            for name, run in self._parts().items()
        }
        #: Threads with something left to do. They are not asked themselves: each lives on after its last wake-up.
        self._busy = set(self._threads)
        self._phase = Phase.WORKING

    def _parts(self) -> dict[str, Callable[[], None]]:
        parts = {"settler": self._settler.run, "renewer": self._renewer.run}
        if self._acquirer is not None:
            parts["acquirer"] = self._acquirer.run
        for consumer in self._consumers:
            parts.update(consumer.threads)
        return parts

    def start(self) -> None:
        for thread in self._threads.values():
            thread.start()

    def answered_at(self) -> float:
        """Return when the task service last answered any of the threads."""
        answers = [self._settler.channel.answered_at, self._renewer.answered_at]
        if self._acquirer is not None:
            answers.append(self._acquirer.channel.answered_at)
        return max(answers + [consumer.answered_at for consumer in self._consumers])

    def silences(self) -> dict[str, str]:
        """Tell by queue for how long its broker has not answered, and why, where that is long."""
        return {c.queue.name: silence for c in self._consumers if (silence := c.silence)}

    def renew_now(self) -> None:
        """Ask the task service about all leases at once. Safe from any thread."""
        self._renewer.renew_now()

    def turn(self) -> bool:
        """Turn the main loop once; return whether to go on."""
        phase = self._shared.stopping.update(self._shared.clock.monotonic())
        if phase is Phase.KILLING and self._is_asking_in_vain():
            self._shared.stopping.force()
            phase = Phase.FORCED
        if phase > self._phase:
            self._enter(phase)
        if self._is_done():
            return False
        self.loop.turn()
        return True

    def _is_asking_in_vain(self) -> bool:
        """Whether nothing is left to stop or to tell: only what became of a request for work, which nobody answers."""
        if self._shared.slots.occupied:
            return False
        acquires = self._acquirer is not None and "acquirer" in self._busy and self._acquirer.channel.is_in_doubt
        return acquires or any(c.claiming in self._busy and c.is_in_doubt for c in self._consumers)

    def _is_taking(self) -> bool:
        """Whether a source of work may still bring some: it ends only when its last answer is in the slots."""
        if "acquirer" in self._busy or not all(consumer.is_resolved for consumer in self._consumers):
            return True
        # Once the grace is over a receive that is out is not waited for: a message that it brings comes again.
        return self._phase is not Phase.KILLING and any(c.claiming in self._busy for c in self._consumers)

    def _enter(self, phase: Phase) -> None:
        self._take_no_more()
        if phase is Phase.KILLING:
            self.loop.stop_all()
        self._phase = phase

    def _take_no_more(self) -> None:
        self._shared.slots.close()
        try:
            self._shared.service.interrupt()
        except Exception:
            # The waiting request returns by itself when its wait is over.
            logger.exception("waiting request not interrupted")

    def _is_done(self) -> bool:
        if self._phase is Phase.FORCED:
            return True
        if self._phase is Phase.WORKING or self._is_taking():
            return False
        if self._shared.slots.occupied == 0:
            return True
        # Without its settler no end can be told: when nothing runs any more there is nothing to stay for.
        return self.loop.is_empty and "settler" not in self._busy

    def close(self) -> bool:
        """End the threads and return whether all have ended; renewals go on until the last end is told."""
        self._take_no_more()
        self._settler.queue.close()
        is_forced = self._shared.stopping.forced.is_set()
        deadline = time.monotonic() + (FORCED_FLUSH_SECONDS if is_forced else JOIN_SECONDS)
        self._join("settler", deadline)
        self._renewals_end.set()
        self._renewer.wake()
        self._join("renewer", deadline)
        self._join("acquirer", deadline)
        self._close_consumers(deadline)
        # A receiver or acknowledger that still waits for its broker asks nothing of the task service.
        brokers = {name for consumer in self._consumers for name in (consumer.receiving, consumer.acknowledging)}
        alive = [name for name, thread in self._threads.items() if name not in brokers and thread.is_alive()]
        if alive:
            logger.warning("threads still wait for the task service names=%s", ",".join(alive))
        elif is_forced:
            self._give_back(self.loop.take_waiting())
        return not alive

    def _close_consumers(self, deadline: float) -> None:
        for consumer in self._consumers:
            consumer.end_claims()
        for consumer in self._consumers:
            self._join(consumer.claiming, deadline)
            consumer.end_acknowledgements()
        for consumer in self._consumers:
            self._join(consumer.acknowledging, deadline)
            # One that is not at its broker ends at once; the others are not waited for.
            self._join(consumer.receiving, min(deadline, time.monotonic() + RECEIVER_SECONDS))
            if not any(self._threads[name].is_alive() for name in consumer.threads):
                consumer.queue.close()

    def _give_back(self, waiting: Sequence[Authority]) -> None:
        """Release what was granted just before the worker was forced to stop: none of it ran."""
        if not waiting:
            return
        logger.info("attempts given back before they started count=%s", len(waiting))
        try:
            owners = [authority.assignment.owner for authority in waiting]
            self._shared.service.release(self._shared.session.session_id, owners)
        except LedgenceError as error:
            logger.warning("work not given back, its lease expires count=%s error=%s", len(waiting), error)

    def _join(self, name: str, deadline: float) -> None:
        if name in self._threads:
            self._threads[name].join(max(0.0, deadline - time.monotonic()))

    def _guard(self, name: str, run: Callable[[], None]) -> None:
        stopping = self._shared.stopping
        try:
            run()
        except Forced as error:
            logger.warning("%s gave up error=%s", name, error)
        except (*SESSION_REFUSALS, InvalidInput, ExternalDispatchRequired) as error:
            self._shared.refused(name, error)
        except BrokerRefused as error:
            logger.error("%s cannot use its queue error=%s", name, error)
            stopping.request(f"{name} refused", ExitCode.CONFIGURATION)
        except BaseException:
            # The outermost frame of the thread: whatever ended it, the worker must not go on without it.
            logger.exception("%s failed", name)
            stopping.request(f"{name} failed", ExitCode.FAILED)
        finally:
            self._busy.discard(name)
            self._shared.inbox.wake()
