-- Grants permission to start user code on live leases that nobody asked to cancel, and sets the execution deadline by
-- the first grant, which moves the lease's bound.
-- Locks: the leases (no key update) in task order, then the attempts; the clock is read after them.
-- Index: primary key of lease, ledgence_attempt_number. Not the ORM: lock, clock and update in one statement.
with held as materialized (
    select task_id, number, expires_at, bound_at from ledgence_lease
    where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s and cancel_requested_at is null
      and (task_id, number, token) in (select * from unnest(%(tasks)s::uuid[], %(numbers)s::int[], %(tokens)s::uuid[]))
    order by task_id
    for no key update
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks),
granted as (
    update ledgence_attempt a set authorized_at = coalesce(a.authorized_at, c.now)
    from held h cross join clock c
    cross join lateral (
        select y.timeout_seconds from ledgence_task t join ledgence_policy y on y.id = t.policy_id where t.id = h.task_id
    ) p
    where a.task_id = h.task_id and a.number = h.number and h.expires_at > c.now
      and (p.timeout_seconds is null
           or coalesce(a.authorized_at, c.now) + make_interval(secs => p.timeout_seconds) > c.now)
    returning a.task_id, a.number, a.authorized_at, p.timeout_seconds, c.now
),
bounded as (
    update ledgence_lease l
    set bound_at = g.authorized_at + make_interval(secs => g.timeout_seconds + %(cleanup_seconds)s)
    from granted g where l.task_id = g.task_id
)
select task_id, number, timeout_seconds - extract(epoch from now - authorized_at)::float8 from granted
