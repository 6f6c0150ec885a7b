-- Ends attempts, and makes the consequence of each: the one rule of what follows an attempt.
--   A cancel request on the lease     -> the task is cancelled, whatever the attempt's outcome
--   succeeded                         -> the task succeeded
--   interrupted                       -> the next generation is ready at once, uncharged
--   retried by its policy, and the charged attempts are fewer than allowed -> the next generation after the backoff
--   anything else                     -> the task failed
-- The leases were locked by an earlier statement of this transaction (lock_leases and its siblings), so this one's
-- snapshot and clock are later than the locks. ``live``: true ends only live leases (settlement, release), false only
-- expired ones (expiry), null either (forced expiry). Owners that do not match end nothing.
-- Locks: attempts and tasks of those leases (no key update). Whoever else locks them holds the lease first, or has found
-- it gone (record_late_settlements): no order among them is needed.
-- Index: primary keys and ledgence_attempt_number, one probe a row. A lease finds its own end in the request by its token,
-- and the updates name their row as = any(array[key]): a join of the two, or a plain =, could be planned the other way
-- round while the tables are empty, and would then read whole indexes, or compare every row with every other.
-- Not the ORM: one delete, one insert and two updates that must be one.
with clock as materialized (select clock_timestamp() as now),
ended as materialized (
    delete from ledgence_lease l using clock c
    where l.task_id = any(%(tasks)s::uuid[])
      and l.task_id = (%(tasks)s::uuid[])[array_position(%(tokens)s::uuid[], l.token)]
      and l.number = (%(numbers)s::int[])[array_position(%(tokens)s::uuid[], l.token)]
      and l.session_id = (%(sessions)s::uuid[])[array_position(%(tokens)s::uuid[], l.token)]
      and (%(live)s::bool is null or (l.expires_at > c.now) = %(live)s::bool)
    returning l.*, array_position(%(tokens)s::uuid[], l.token) as place
),
judged as materialized (
    select e.*, r.*, y.backoff_initial_seconds, y.backoff_factor, y.backoff_maximum_seconds, y.backoff_jitter,
           e.charged + (r.outcome not in ('interrupted', 'suspended'))::int as charged_now,
           case
               when e.cancel_requested_at is not null then 'cancelled'
               when r.outcome = 'succeeded' then 'succeeded'
               when r.outcome = 'interrupted' then 'interrupted'
               when e.charged + 1 < y.max_attempts
                    and (r.outcome = any(y.retry_on)
                         or (r.outcome = 'failed' and string_to_array(r.classes, ' ') && y.retry_on)) then 'retry'
               else 'failed'
           end as verdict
    from ended e
    cross join lateral (select policy_id from ledgence_task where id = e.task_id limit 1) t
    join ledgence_policy y on y.id = t.policy_id
    cross join lateral (
        select (%(outcomes)s::text[])[e.place] as outcome, (%(settlements)s::bytea[])[e.place] as settlement,
               (%(results)s::text[])[e.place] as result, (%(reports)s::text[])[e.place] as report,
               (%(classes)s::text[])[e.place] as classes
    ) r
),
consequence as materialized (
    select j.*, j.verdict in ('interrupted', 'retry') as again,
           case when j.verdict in ('interrupted', 'retry') then 'retry' else j.verdict end as answer,
           -- The exponent is capped before the power is taken: attempt 1,000 neither overflows nor waits for ever.
           case when j.verdict = 'retry' then least(j.backoff_maximum_seconds,
               least(j.backoff_maximum_seconds,
                     j.backoff_initial_seconds * power(j.backoff_factor, least(j.charged, 100)))
               * (1 + j.backoff_jitter * (2 * random() - 1)))
           else 0 end as delay_seconds
    from judged j
),
attempt as (
    update ledgence_attempt a
    set outcome = k.outcome, consequence = k.answer, finished_at = c.now, settlement = k.settlement,
        report = k.report::json, lease_expires_at = k.expires_at,
        result = case when k.verdict <> 'succeeded' then k.result::json end
    from consequence k, clock c
    where a.task_id = any(array[k.task_id]) and a.number = k.number
),
intent as (
    insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority,
                                         available_at, publication_id, next_publish_at)
    select k.task_id, k.number + 1, k.outcome, k.charged_now, k.queue_id, k.program_id, k.priority,
           c.now + make_interval(secs => k.delay_seconds),
           case when q.mode = 'external' then gen_random_uuid() end,
           case when q.mode = 'external' then c.now + make_interval(secs => k.delay_seconds) end
    from consequence k join ledgence_queue q on q.id = k.queue_id, clock c
    where k.again
),
task as (
    update ledgence_task t
    set outcome = k.verdict, finished_at = c.now, revision = t.revision + 1,
        result = case when k.verdict = 'succeeded' then k.result::json end
    from consequence k, clock c
    where not k.again and t.id = any(array[k.task_id])
)
select task_id, number, answer, queue_id from consequence
