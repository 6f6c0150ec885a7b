-- Explains settlements that ended nothing, in a new snapshot: the same one was accepted before, another one was, or the
-- lease was over. In that last case the first late one is kept as evidence and changes nothing else.
-- Locks: the attempts, in order. Index: ledgence_attempt_number, and the primary key, named as
-- = any(array[key]) so that it is probed and not read whole (see end_attempts).
-- Not the ORM: lock, compare and update in one statement.
with request as materialized (
    select * from unnest(%(tasks)s::uuid[], %(numbers)s::int[], %(tokens)s::uuid[], %(outcomes)s::text[],
                         %(settlements)s::bytea[], %(results)s::text[], %(reports)s::text[])
        r(task_id, number, token, outcome, settlement, result, report)
),
held as materialized (
    select id, task_id, number, settlement, late_settlement, consequence from ledgence_attempt
    where task_id = any(%(tasks)s::uuid[]) and session_id = %(session)s
      and (task_id, number, token) in (select task_id, number, token from request)
    order by task_id, number
    for no key update
),
late as (
    update ledgence_attempt a
    set late_settlement = r.settlement, late_outcome = r.outcome, late_report = r.report::json,
        late_result = r.result::json, late_at = clock_timestamp()
    from held h join request r on r.task_id = h.task_id and r.number = h.number
    where a.id = any(array[h.id]) and h.settlement is null and h.late_settlement is null
)
select h.task_id, h.number,
       case when h.settlement is null then 'ownership_lost'
            when h.settlement = r.settlement then 'accepted' else 'conflict' end,
       h.consequence
from held h join request r on r.task_id = h.task_id and r.number = h.number
