-- Writes down what a process has counted, each row under the minute that was so many seconds ago. Of a queue that is gone
-- nothing is kept. Locks: the new rows, and a key share on their queues. Index: primary key of queue.
-- Not the ORM: the database's clock, and arrays of arrays.
insert into ledgence_rollup (minute, queue_id, claimed, succeeded, failed, retried, cancelled, waits)
select date_trunc('minute', clock_timestamp() - make_interval(secs => r.age)), q.id,
       r.claimed, r.succeeded, r.failed, r.retried, r.cancelled, r.waits::int[]
from unnest(%(ages)s::float8[], %(queues)s::int[], %(claimed)s::int[], %(succeeded)s::int[], %(failed)s::int[],
            %(retried)s::int[], %(cancelled)s::int[], %(waits)s::text[])
         r(age, queue_id, claimed, succeeded, failed, retried, cancelled, waits)
cross join lateral (select id from ledgence_queue where id = r.queue_id limit 1) q
