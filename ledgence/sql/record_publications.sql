-- Records what became of leased publications, where they are still leased by that token: an intent that was claimed,
-- cancelled, deferred, republished or leased again since is none of the publisher's business any more.
--   confirmed          -> to be repaired after 60 s, doubling with the epoch to an hour, unless somebody claims it
--   refused            -> again after 1 s, doubling with the refusals in a row to an hour
--   failed, uncertain  -> again after 1 to 5 s
--   unsent             -> due at once, as if it had not been leased
-- Returns those that somebody else holds, perhaps only for a moment and in vain: the caller comes again with them.
-- Locks: the intents (no key update), skipping held ones, so it never waits, and needs no order. The clock is read after
-- the locks.
-- Index: the intent's primary key, one probe a row. Not the ORM: lock, update and insert in one statement.
with result as materialized (
    select * from unnest(%(tasks)s::uuid[], %(publications)s::uuid[], %(tokens)s::uuid[], %(statuses)s::text[],
                         %(details)s::text[]) r(task_id, publication_id, token, status, detail)
),
held as materialized (
    select r.task_id, r.status, r.detail
    from result r cross join lateral (
        select task_id from ledgence_deliveryintent
        where task_id = r.task_id and publication_id = r.publication_id and publish_token = r.token
        for no key update skip locked
    ) i
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks),
recorded as (
    update ledgence_deliveryintent i
    set publish_token = null,
        confirmed_at = case when h.status = 'confirmed' then c.now end,
        refusals = case h.status when 'confirmed' then 0 when 'refused' then least(i.refusals + 1, 32767)
                                 else i.refusals end,
        publications = i.publications - (h.status = 'unsent')::int,
        first_published_at = case when h.status <> 'unsent' or i.publications > 1 then i.first_published_at end,
        last_published_at = case when h.status <> 'unsent' or i.publications > 1 then i.last_published_at end,
        next_publish_at = c.now + make_interval(secs => case h.status
            when 'unsent' then 0
            -- The exponents are capped before the power is taken.
            when 'confirmed' then least(3600, 60 * power(2, least(i.epoch - 1, 10))) * (0.9 + 0.2 * random())
            when 'refused' then least(3600, power(2, least(i.refusals, 20))) * (0.9 + 0.2 * random())
            else 1 + 4 * random() end)
    from held h, clock c
    where i.task_id = any(array[h.task_id])
    returning i.task_id, i.generation, i.epoch, i.publication_id, h.status, h.detail, c.now
),
event as (
    insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, detail, happened_at)
    select task_id, generation, status, epoch, publication_id, json_build_object('reason', detail), now
    from recorded where status in ('refused', 'failed', 'uncertain')
)
select r.task_id, r.token
from result r cross join lateral (
    select task_id from ledgence_deliveryintent
    where task_id = r.task_id and publication_id = r.publication_id and publish_token = r.token
) i
where r.task_id <> all(array(select task_id from recorded))
