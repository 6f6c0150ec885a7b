-- Explains renewals that renewed nothing, in a new snapshot: a lease that is found is held by somebody's transaction,
-- one that is not is lost. Locks: nothing. Index: the lease's primary key. Not the ORM: owner tuples as arrays.
select task_id, number from ledgence_lease
where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s and expires_at > clock_timestamp()
  and (task_id, number, token) in (select * from unnest(%(tasks)s::uuid[], %(numbers)s::int[], %(tokens)s::uuid[]))
