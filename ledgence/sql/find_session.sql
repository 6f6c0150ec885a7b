-- Reads whether a session is open, for how many seconds more, its scope, which of the queues it serves are external and where
-- their routes lead, and whether its worker is to drain.
-- Locks: nothing. Index: primary key, and ledgence_queue_name by tenant and namespace.
-- Not the ORM: the database's clock, and the session's arrays.
select s.closed_at is null and s.expires_at > clock_timestamp(),
       extract(epoch from s.expires_at - clock_timestamp())::float8,
       s.tenant, s.namespace,
       array(
           select array[q.name::text, q.destination] from ledgence_queue q
           where q.tenant = s.tenant and q.namespace = s.namespace and q.mode = 'external'
             and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
           order by q.name
       ),
       s.drain_requested_at is not null
from ledgence_workersession s where s.id = %(session)s
