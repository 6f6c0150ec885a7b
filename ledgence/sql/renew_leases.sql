-- Renews live leases to now + L, or to their bound when that is earlier; tells cancel requests. Never shortens, never
-- revives. Locks: the leases, skipping held ones, so that somebody's open transaction cannot cost a worker its other
-- leases; the clock is read after the locks.
-- Index: the lease's primary key. Expiry is compared on the locked rows, and the update names its row as = any(array[key]):
-- a comparison on the updated table itself could be answered by the index on expiry, which is as long as all leases.
-- Not the ORM: lock, clock and update in one statement.
with held as materialized (
    select task_id, expires_at from ledgence_lease
    where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s
      and (task_id, number, token) in (select * from unnest(%(tasks)s::uuid[], %(numbers)s::int[], %(tokens)s::uuid[]))
    order by task_id
    for no key update skip locked
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks)
update ledgence_lease l
set expires_at = greatest(l.expires_at, least(c.now + make_interval(secs => %(lease_seconds)s), l.bound_at))
from held h, clock c
where l.task_id = any(array[h.task_id]) and h.expires_at > c.now
returning l.task_id, l.number, extract(epoch from l.expires_at - c.now)::float8, l.cancel_requested_at is not null
