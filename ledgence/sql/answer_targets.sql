-- Writes the answers of rows that have none, and counts them on their action: what was changed, and what was skipped by
-- its answer. Counts also after a stop, which may come while a chunk is on its way.
-- Locks: the rows (held already), then the action (no key update), to the end of the transaction, which is near.
-- Index: ledgence_action_target, named as = any(array[key]) so that it is probed; the action's primary key.
-- Not the ORM: two updates as one.
with answered as (
    update ledgence_operatoractiontarget t
    set answer = a.answer
    from unnest(%(targets)s::text[], %(answers)s::text[]) a(target, answer)
    where t.action_id = %(action)s and t.target = any(array[a.target]) and t.answer = ''
    returning t.answer
),
skipped as materialized (
    select answer, count(*) as count from answered where answer = any(%(unchanged)s::text[]) group by answer
)
update ledgence_operatoraction o
set changed = o.changed + (select count(*) from answered) - coalesce((select sum(count) from skipped), 0),
    skipped = (
        select json_object_agg(answer, count order by answer)
        from (
            select answer, sum(count) as count
            from (
                select key as answer, value::bigint as count from json_each_text(coalesce(o.skipped, '{}'))
                union all
                select answer, count from skipped
            ) parts
            group by answer
        ) sums
    )
where o.id = %(action)s
