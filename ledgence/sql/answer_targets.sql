-- Writes the answers of rows that this transaction has taken, and counts them on their action: what was changed, and what
-- was skipped by its answer. Counts also after a stop, which may come while a chunk is on its way.
-- Locks: the rows (held already), then the action (no key update), to the end of the transaction, which is near.
-- Index: primary keys; that of the rows is named as = any(array[key]), and nothing else of them is asked, so that it is
-- probed: a new action's rows are more than the statistics know, and any other way would read all of them for each.
-- Not the ORM: two updates as one.
with answered as (
    update ledgence_operatoractiontarget t
    set answer = a.answer
    from unnest(%(targets)s::bigint[], %(answers)s::text[]) a(id, answer)
    where t.id = any(array[a.id])
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
