"""The settler: settles ended attempts in batches, and refills their slots in the same commit where it may."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from ledgence_worker.admission import admit
from ledgence_worker.channel import Channel, Reply, Undecided
from ledgence_worker.ends import End, EndQueue
from ledgence_worker.errors import SESSION_REFUSALS, Busy, ExternalDispatchRequired, InvalidInput, LedgenceError
from ledgence_worker.failures import own_report
from ledgence_worker.patience import Patience
from ledgence_worker.protocol import Acquired, Outcome, Report, Settled, Settlement, SettleStatus
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.settler")


class Settler:
    """Tells every end until it is accepted or finally refused, and only then frees its slot.

    Where it refills, the freed slots' next work comes with the same commit: no other source of work has a turn then.
    Nothing is dropped while the task service does not answer: slots stay occupied, so nothing new is taken either.
    """

    def __init__(self, shared: Shared, *, refills: bool = True) -> None:
        self._shared = shared
        self._refills = refills
        self._session_id = shared.session.session_id
        self._patience = Patience(shared.clock, shared.stopping.forced)
        self._busy_patience = Patience(shared.clock, shared.stopping.forced)
        self.channel = Channel(shared, number=1)
        self.queue = EndQueue(shared.settings.linger_seconds, shared.clock)

    def run(self) -> None:
        while (ends := self.queue.take()) is not None:
            self.step(ends)
            self._send(self.queue.take_again())

    def step(self, ends: Sequence[End]) -> None:
        """Tell one batch: settlements with a request for as many new attempts, or alone where none are asked for."""
        settlements = [end for end in ends if end.settlement is not None]
        if len(settlements) < len(ends):
            self._send([end for end in ends if end.settlement is None])
        if self._shared.stopping.is_requested or not self._refills:
            self._send(settlements)
        elif settlements:
            self._exchange(settlements)

    def _exchange(self, ends: Sequence[End]) -> None:
        capacity = sum(end.is_confirmed for end in ends)
        if not capacity:
            return self._send(ends)
        settlements = tuple(end.settlement for end in ends if end.settlement is not None)
        try:
            reply = self.channel.ask(capacity=capacity, settlements=settlements)
        except Undecided:
            self._send_singly(ends)
        except (*SESSION_REFUSALS, ExternalDispatchRequired) as error:
            # No more work comes this way; whether settlements alone are refused too is for the service to say.
            self._shared.refused("settler", error)
            self._send(ends)
        else:
            self._conclude(ends, reply.answer.settled, reply)

    def _send(self, ends: Sequence[End]) -> None:
        """Settle or release ends, all of the same kind, without asking for work; a lone refusal is final."""
        if not ends:
            return
        try:
            answers = self._patience.repeat(lambda: self._call(ends), "settle")
        except (Busy, InvalidInput) as error:
            if len(ends) > 1:
                self._send_singly(ends)
            elif isinstance(error, Busy):
                self._conclude(ends, ())
            else:
                self._replace(ends[0], error)
        except SESSION_REFUSALS as error:
            self._shared.refused("settler", error)
            self._shared.abandon(ends, str(error))
        else:
            self._conclude(ends, answers)

    def _call(self, ends: Sequence[End]) -> list[Settled]:
        settlements = [end.settlement for end in ends if end.settlement is not None]
        if settlements:
            return self._shared.service.settle(self._session_id, settlements)
        return self._shared.service.release(self._session_id, [end.authority.assignment.owner for end in ends])

    def _send_singly(self, ends: Sequence[End]) -> None:
        # One by one, so that a locked row or an invalid result holds up no other.
        for end in ends:
            self._send([end])

    def _replace(self, end: End, error: InvalidInput) -> None:
        """Tell an end whose settlement can never be accepted in other words, so that it does not stay unwritten."""
        if end.settlement is None or end.is_replacement:
            self._shared.abandon([end], str(error))
            return
        logger.error("settlement refused as invalid task=%s attempt=%s error=%s", *end.authority.key, error)
        self._send([replace(end, settlement=explain_refusal(end.settlement, error), is_replacement=True)])

    def _conclude(self, ends: Sequence[End], answers: Sequence[Settled], reply: Reply[Acquired] | None = None) -> None:
        """Free the slots of the ends that have a final answer, and occupy them with what the reply granted."""
        statuses = {(answer.task_id, answer.number): answer.status for answer in answers}
        final: list[End] = []
        undecided: list[End] = []
        for end in ends:
            status = statuses.get(end.authority.key, SettleStatus.BUSY)
            (undecided if status is SettleStatus.BUSY else final).append(end)
            if status is not SettleStatus.ACCEPTED:
                logger.warning("end not accepted task=%s attempt=%s status=%s", *end.authority.key, status)
        freed = sum(end.is_confirmed for end in final)
        if reply is not None and len(reply.answer.assignments) > freed:
            reply = self._give_back_rest(reply, freed)
        self._shared.keeper.forget(end.authority for end in final)
        taken = 0 if reply is None else len(reply.answer.assignments)
        self._shared.slots.exchange(freed=freed, stuck=len(final) - freed, taken=taken)
        if reply is not None:
            admit(reply, self._shared)
        if undecided:
            self.queue.put_again(undecided, self._busy_patience.next_seconds())
        else:
            self._busy_patience.reset()
        if self._shared.stopping.is_requested:
            self._shared.inbox.wake()

    def _give_back_rest(self, reply: Reply[Acquired], room: int) -> Reply[Acquired]:
        """Release what was granted for the slots of ends that the same commit could not settle."""
        assignments = reply.answer.assignments
        owners = [assignment.owner for assignment in assignments[room:]]
        logger.warning("more granted than slots freed, giving back count=%s", len(owners))
        try:
            self._patience.repeat(lambda: self._shared.service.release(self._session_id, owners), "release")
        except LedgenceError as error:
            logger.warning("work not given back, its lease expires count=%s error=%s", len(owners), error)
        return replace(reply, answer=replace(reply.answer, assignments=assignments[:room]))


def explain_refusal(settlement: Settlement, error: InvalidInput) -> Settlement:
    """Return the settlement without what made it invalid: a success whose result was refused has failed."""
    failed = settlement.outcome is Outcome.SUCCEEDED
    told = settlement.report
    report = Report(error=own_report(error), exit_status=told.exit_status, seconds=told.seconds)
    return replace(settlement, outcome=Outcome.FAILED if failed else settlement.outcome, result=None, report=report)
