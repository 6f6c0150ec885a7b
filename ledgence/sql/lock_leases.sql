-- Locks the leases that a session presents, before settlement or release decides in the next statement.
-- Locks: the leases, waiting for each up to the lock time-out, in task order. Index: the lease's primary key.
-- Not the ORM: owner tuples as arrays.
select task_id from ledgence_lease
where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s
  and (task_id, number, token) in (select * from unnest(%(tasks)s::uuid[], %(numbers)s::int[], %(tokens)s::uuid[]))
order by task_id
for update
