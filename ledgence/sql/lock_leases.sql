-- Locks the leases that a session holds on named tasks, before settlement or release decides in the next statement,
-- which compares numbers and tokens as well.
-- Locks: the leases, waiting for each up to the lock time-out, in task order. Index: the lease's primary key.
-- Not the ORM: kept beside its siblings.
select task_id from ledgence_lease
where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s
order by task_id
for update
