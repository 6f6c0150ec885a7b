"""Admission: what a reply grants becomes held authority, and goes to the main loop."""

import logging

from ledgence_worker.channel import Reply
from ledgence_worker.claims import Claimed
from ledgence_worker.protocol import Acquired
from ledgence_worker.shared import Shared

logger = logging.getLogger("ledgence_worker.admission")


def admit(reply: Reply[Acquired] | Reply[Claimed], shared: Shared) -> None:
    """Take charge of a reply's assignments, whose slots are occupied already, and hand them to the main loop."""
    for task_id, number in reply.answer.lost:
        # Only a replay has them: the lease ended before the reply arrived, so the attempt never ran here.
        logger.warning("attempt lost before it started task=%s attempt=%s", task_id, number)
    if reply.answer.assignments:
        shared.inbox.grant(shared.keeper.hold(reply.answer.assignments, reply.since))
