-- Tells in how many seconds the next publication of a queue is due, if that is soon. What is due already is not looked at:
-- lease_publications has just done that.
-- Locks: nothing. Index: ledgence_intent_publish, of which only the next moments are read.
-- Not the ORM: a lateral probe, and the database's clock.
select extract(epoch from i.next_publish_at - clock_timestamp())::float8
from ledgence_queue q
cross join lateral (
    select next_publish_at from ledgence_deliveryintent
    where queue_id = q.id and next_publish_at > statement_timestamp()
      and next_publish_at <= statement_timestamp() + make_interval(secs => %(within_seconds)s)
    order by next_publish_at, task_id
    limit 1
) i
where q.id = %(queue)s and q.mode = 'external' and q.destination = %(destination)s and q.paused_at is null
