"""The threads that serve one session beside the main loop: acquirer, settler and renewer. None dies silently."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from ledgence_worker.acquirer import Acquirer
from ledgence_worker.authority import Authority
from ledgence_worker.errors import SESSION_REFUSALS, ExternalDispatchRequired, InvalidInput, LedgenceError
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


class Crew:
    """Runs one session until it is drained or forced to stop. Belongs to the main thread."""

    def __init__(self, shared: Shared, pool: Pool) -> None:
        self._shared = shared
        self._acquirer = Acquirer(shared)
        self._settler = Settler(shared)
        self.loop = Loop(shared, pool, self._settler.queue)
        self._renewals_end = threading.Event()
        self._renewer = Renewer(shared, self._renewals_end)
        self._threads = {
            name: threading.Thread(target=self._guard, args=(name, run), name=f"ledgence-{name}", daemon=True)
            for name, run in (
                ("acquirer", self._acquirer.run),
                ("settler", self._settler.run),
                ("renewer", self._renewer.run),
            )
        }
        #: Threads with something left to do. They are not asked themselves: each lives on after its last wake-up.
        self._busy = set(self._threads)
        self._phase = Phase.WORKING

    def start(self) -> None:
        for thread in self._threads.values():
            thread.start()

    def answered_at(self) -> float:
        """Return when the task service last answered any of the threads."""
        return max(self._acquirer.channel.answered_at, self._settler.channel.answered_at, self._renewer.answered_at)

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
        return "acquirer" in self._busy and self._acquirer.channel.is_in_doubt and self._shared.slots.occupied == 0

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
        # The acquirer ends only when its last answer is in the inbox and in the slots.
        if self._phase is Phase.WORKING or "acquirer" in self._busy:
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
        alive = [name for name, thread in self._threads.items() if thread.is_alive()]
        if alive:
            logger.warning("threads still wait for the task service names=%s", ",".join(alive))
        elif is_forced:
            self._give_back(self.loop.take_waiting())
        return not alive

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
        self._threads[name].join(max(0.0, deadline - time.monotonic()))

    def _guard(self, name: str, run: Callable[[], None]) -> None:
        stopping = self._shared.stopping
        try:
            run()
        except Forced as error:
            logger.warning("%s gave up error=%s", name, error)
        except (*SESSION_REFUSALS, InvalidInput, ExternalDispatchRequired) as error:
            self._shared.refused(name, error)
        except BaseException:
            # The outermost frame of the thread: whatever ended it, the worker must not go on without it.
            logger.exception("%s failed", name)
            stopping.request(f"{name} failed", ExitCode.FAILED)
        finally:
            self._busy.discard(name)
            self._shared.inbox.wake()
