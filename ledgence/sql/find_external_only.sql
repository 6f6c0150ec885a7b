-- Tells whether a session names its queues and all of those are external: it can acquire nothing, ever. A session that
-- serves every queue, or one that does not exist yet, may still get work.
-- Locks: nothing. Index: primary key, and ledgence_queue_name, one probe a name. Not the ORM: the session's arrays.
select s.queues <> '{}' and not exists (
    select 1 from unnest(s.queues) n(name)
    left join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace and q.name = n.name
    where n.name <> all(s.exclude_queues) and q.mode is distinct from 'external'
)
from ledgence_workersession s where s.id = %(session)s
