-- Reads which queues a session serves, paused ones too, and the highest id of any queue. Locks: nothing.
-- Index: ledgence_queue_name by tenant and namespace. Not the ORM: the session's arrays.
select coalesce((select max(id) from ledgence_queue), 0),
       array(
           select q.id from ledgence_workersession s
           join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace
           where s.id = %(session)s
             and (s.queues = '{}' or q.name = any(s.queues)) and q.name <> all(s.exclude_queues)
       )
