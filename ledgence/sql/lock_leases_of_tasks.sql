-- Locks the leases of named tasks, whoever owns them, for cancellation or a forced expiry.
-- Locks: the leases, waiting, in task order. Index: the lease's primary key.
-- Not the ORM: kept beside its siblings.
select task_id, number, token, session_id from ledgence_lease
where task_id = any(%(tasks)s::uuid[])
order by task_id
for update
