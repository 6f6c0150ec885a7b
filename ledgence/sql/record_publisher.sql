-- Records that a publisher starts or turns, and tells whether its queue is still routed to where it sends. Makes its row
-- again if another publisher has found it long silent.
-- Locks: the publisher. Index: primary keys. Not the ORM: the database's clock, in one upsert.
with clock as materialized (select clock_timestamp() as now)
insert into ledgence_publisher as p (id, queue_id, host, pid, version, started_at, turned_at, confirmed_at, failure)
select %(publisher)s::uuid, q.id, %(host)s, %(pid)s, %(version)s, c.now, c.now,
       c.now - make_interval(secs => %(answered_seconds_ago)s::float8), %(failure)s
from ledgence_queue q, clock c where q.id = %(queue)s
on conflict (id) do update
set turned_at = excluded.turned_at, confirmed_at = coalesce(excluded.confirmed_at, p.confirmed_at),
    failure = excluded.failure
returning (
    select q.mode = 'external' and q.destination = %(destination)s from ledgence_queue q where q.id = p.queue_id
)
