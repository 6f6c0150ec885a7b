-- Asks the owners of leases, which this transaction has locked, to stop: from now on the attempt ends cancelled, and its
-- authority cannot outlast the clean-up allowance. Copied to the task for display.
-- Locks: the tasks (no key update). Index: primary keys. Not the ORM: two updates as one.
with clock as materialized (select clock_timestamp() as now),
lease as (
    update ledgence_lease l
    set cancel_requested_at = coalesce(l.cancel_requested_at, c.now),
        bound_at = least(l.bound_at, c.now + make_interval(secs => %(cleanup_seconds)s)),
        expires_at = least(l.expires_at, c.now + make_interval(secs => %(cleanup_seconds)s))
    from clock c
    where l.task_id = any(%(tasks)s::uuid[])
    returning l.task_id, l.cancel_requested_at
)
update ledgence_task t set cancel_requested_at = l.cancel_requested_at from lease l where t.id = l.task_id
returning t.id
