"""Hints over LISTEN and NOTIFY: they make waits short and may be lost; the poll behind each makes it certain."""

import logging
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ledgence import sql
from ledgence.conf import get_settings

logger = logging.getLogger("ledgence.hints")

#: The channel of NOTIFY. A payload is queue ids and CANCEL, separated by blanks, or EVERYTHING.
CHANNEL = "ledgence"
CANCEL = "cancel"
EVERYTHING = "*"
# A payload has at most 7,999 bytes; with more words it does not name them.
WORDS_MAX = 500


# What each connection still has to tell after its commit: one NOTIFY, however many operations announced something.
# After a rollback an entry may stay and go out with the next commit: a hint too many does no harm.
_pending: WeakKeyDictionary[BaseDatabaseWrapper, set[str]] = WeakKeyDictionary()


def announce(queue_ids: set[int], *, using: str) -> None:
    """Hint, after the commit, that queues have ready work. Its failure reaches nobody."""
    _after_commit({str(queue) for queue in queue_ids}, using=using)


def announce_cancel(*, using: str) -> None:
    """Hint, after the commit, that owners of leases should renew at once: some were asked to stop or fenced off."""
    _after_commit({CANCEL}, using=using)


def _after_commit(words: set[str], *, using: str) -> None:
    if words and get_settings().hints:
        _pending.setdefault(connections[using], set()).update(words)
        transaction.on_commit(lambda: _send(using), using=using, robust=True)


def _send(using: str) -> None:
    words = _pending.pop(connections[using], None)
    if not words:
        return
    payload = " ".join(sorted(words)) if len(words) <= WORDS_MAX else EVERYTHING
    try:
        sql.run("notify", using, {"channel": CHANNEL, "payload": payload})
    except DatabaseError as error:
        logger.info("hint lost payload=%s error=%s", payload, error)
