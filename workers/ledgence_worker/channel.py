"""A channel of the worker's session: one command in flight, repeated until its fate is known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ledgence_worker.claims import Claim, Claimed, Dispatch
from ledgence_worker.errors import Busy, InvalidInput, Unavailable
from ledgence_worker.patience import Forced, Patience, note_outage, note_recovery
from ledgence_worker.protocol import Acquire, Acquired, Settlement
from ledgence_worker.shared import Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply[A: Acquired | Claimed]:
    """What a channel's command was answered. No grant in it is older than ``since``, in monotonic seconds."""

    answer: A
    since: float


#: How often a claim of one dispatch alone is sent that is refused as Busy, each time after a wait for its lock.
CLAIM_TRIES: Final = 5


class Undecided(Exception):
    """A command was certainly not carried out: its sequence is unused. Of several parts, send each alone."""


class Channel:
    """Counts the sequences of one channel. Belongs to one thread."""

    def __init__(self, shared: Shared, *, number: int) -> None:
        self._shared = shared
        self._service = shared.service
        self._session_id = shared.session.session_id
        self._clock = shared.clock
        self._number = number
        self._patience = Patience(shared.clock, shared.stopping.forced)
        self._sequence = 0
        #: When the task service last answered, for the health page.
        self.answered_at = shared.clock.monotonic()
        #: Whether the command that is out has failed to get an answer; read by other threads.
        self.is_in_doubt = False

    def ask(
        self, *, capacity: int, wait_seconds: float = 0.0, settlements: tuple[Settlement, ...] = ()
    ) -> Reply[Acquired]:
        """Send the next command and repeat it, the same but for its wait, until it is answered.

        Raises Undecided when the service refused settlements as Busy or InvalidInput and nothing of the command was
        carried out. After a lost reply that is not certain, so a Busy command is then repeated like any other. Raises
        Forced when the worker is forced to stop, SessionExpired, and without settlements the errors of bad input.
        """
        command = Acquire(
            session_id=self._session_id,
            channel=self._number,
            sequence=self._sequence + 1,
            capacity=capacity,
            wait_seconds=wait_seconds,
            settlements=settlements,
        )

        def send() -> Acquired:
            # A wait is no part of what makes it the same command. Without one the answer comes as soon as it can, and
            # an outage does not seem to go on for a wait longer.
            return self._service.acquire(replace(command, wait_seconds=0.0) if self.is_in_doubt else command)

        return self._repeat("acquire", send, gives_up_after=1 if settlements else None)

    def claim(self, dispatches: Sequence[Dispatch]) -> Reply[Claimed]:
        """Claim exactly these, permitting user code to start, and repeat the command until it is answered.

        Raises Undecided when the service refused it as Busy or InvalidInput and nothing was claimed: several at once,
        one after some tries. Raises Forced when the worker is forced to stop, and SessionExpired.
        """
        command = Claim(
            session_id=self._session_id,
            channel=self._number,
            sequence=self._sequence + 1,
            dispatches=tuple(dispatches),
            authorize=True,
        )
        tries = 1 if len(dispatches) > 1 else CLAIM_TRIES
        return self._repeat("claim", lambda: self._service.claim(command), gives_up_after=tries)

    def _repeat[A: Acquired | Claimed](
        self, what: str, send: Callable[[], A], *, gives_up_after: int | None = None
    ) -> Reply[A]:
        """Send until there is an answer. ``gives_up_after``: so many refusals in vain, None for ever."""
        tries = 1
        self.is_in_doubt = False
        while True:
            requested_at = self._clock.monotonic()
            try:
                answer = send()
            except Unavailable as error:
                self.is_in_doubt = True
                note_outage(what, tries, error)
            except Busy as error:
                if gives_up_after is not None and tries >= gives_up_after and not self.is_in_doubt:
                    raise Undecided(str(error)) from error
                note_outage(what, tries, error)
            except InvalidInput as error:
                # Bad input is refused before anything else, so the earlier sendings were refused as well.
                if gives_up_after is not None:
                    raise Undecided(str(error)) from error
                raise
            else:
                break
            tries += 1
            if self._patience.pause():
                raise Forced(f"{what} on channel {self._number} had no answer after {tries - 1} tries")
        if tries > 1:
            note_recovery(what, tries)
        return self._answered(answer, requested_at)

    def _answered[A: Acquired | Claimed](self, answer: A, requested_at: float) -> Reply[A]:
        self._sequence += 1
        self.is_in_doubt = False
        self._patience.reset()
        self.answered_at = self._clock.monotonic()
        if answer.drain_requested:
            self._shared.drain()
        return Reply(answer=answer, since=requested_at + answer.held_seconds)
