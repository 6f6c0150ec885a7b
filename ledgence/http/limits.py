"""How much one request may hold, and one reply: what the service enforces and its description says."""

from typing import Final

from ledgence_worker import limits

#: How many tasks one request submits.
TASKS_MAX: Final = 1000
#: A worker has as many attempts as processes; twice that leaves room for a replay beside what is new.
BATCH_MAX: Final = 2 * limits.CONCURRENCY_MAX
#: How many queues, and how many programs, a session may name.
NAMES_MAX: Final = 10_000
ENTRY_POINT_MAX: Final = 512
INT_MAX: Final = 2**31 - 1
BIGINT_MAX: Final = 2**63 - 1
#: How many assignments one reply holds, each with up to 1 MiB of data: whoever has more room asks again.
CAPACITY_MAX: Final = 32
#: Tasks in one page, and how many of the scope's are looked at for it.
PAGE_MAX: Final = 100
WINDOW: Final = 10_000
#: Attempts in one page, and the bytes of their reports after which it ends.
ATTEMPTS_PAGE: Final = 100
ATTEMPTS_BYTES: Final = 4 * 1024 * 1024
