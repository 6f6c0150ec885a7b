-- Finds who publishes the work of external queues (of one, where it is named), the last one that turned first, with how
-- long ago that was. Locks: nothing. Index: none is needed: there is one row for each process and queue, and the dead ones
-- are removed. Not the ORM: the database's clock.
select p.id, q.name, p.host, p.pid, p.version, p.started_at,
       extract(epoch from statement_timestamp() - p.turned_at)::float8,
       extract(epoch from statement_timestamp() - p.confirmed_at)::float8, p.failure
from ledgence_publisher p join ledgence_queue q on q.id = p.queue_id
where %(queue)s::int is null or p.queue_id = %(queue)s::int
order by p.turned_at desc, p.id
limit %(limit)s
