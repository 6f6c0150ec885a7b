-- Records what became of leased publications, where they are still leased by that token: an intent that was claimed,
-- cancelled, deferred, republished or leased again since is none of the publisher's business any more.
--   confirmed          -> to be repaired after 60 s, doubling with the epoch to an hour, unless somebody claims it
--   refused            -> again after 1 s, doubling with the refusals in a row to an hour
--   failed, uncertain  -> again after 1 to 5 s
--   unsent             -> due at once, as if it had not been leased
-- Returns those that somebody else holds, perhaps only for a moment and in vain: the caller comes again with them.
-- Locks: the intents (no key update), skipping held ones, so it never waits, and needs no order. The clock is read after
-- the locks.
-- Index: the intent's primary key. Rows are named as arrays, and find their result by their place in them, as in
-- lease_publications. A task stands in the request once. Not the ORM: lock, update and insert in one statement.
with held as materialized (
    select task_id from ledgence_deliveryintent
    where task_id = any(%(tasks)s::uuid[])
      and publication_id = (%(publications)s::uuid[])[array_position(%(tasks)s::uuid[], task_id)]
      and publish_token = (%(tokens)s::uuid[])[array_position(%(tasks)s::uuid[], task_id)]
    for no key update skip locked
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks),
recorded as (
    update ledgence_deliveryintent i
    set publish_token = null,
        (confirmed_at, refusals, publications, first_published_at, last_published_at, next_publish_at) = (
            select case when r.status = 'confirmed' then c.now end,
                   case r.status when 'confirmed' then 0 when 'refused' then least(i.refusals + 1, 32767)
                                 else i.refusals end,
                   i.publications - (r.status = 'unsent')::int,
                   case when r.status <> 'unsent' or i.publications > 1 then i.first_published_at end,
                   case when r.status <> 'unsent' or i.publications > 1 then i.last_published_at end,
                   c.now + make_interval(secs => case r.status
                       when 'unsent' then 0
                       -- The exponents are capped before the power is taken.
                       when 'confirmed' then least(3600, 60 * power(2, least(i.epoch - 1, 10))) * (0.9 + 0.2 * random())
                       when 'refused' then least(3600, power(2, least(i.refusals, 20))) * (0.9 + 0.2 * random())
                       else 1 + 4 * random() end)
            from (select (%(statuses)s::text[])[array_position(%(tasks)s::uuid[], i.task_id)] as status) r
        )
    from clock c
    where i.task_id = any(array(select task_id from held))
    returning i.task_id, i.generation, i.epoch, i.publication_id, c.now,
              array_position(%(tasks)s::uuid[], i.task_id) as place
),
event as (
    insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, detail, happened_at)
    select task_id, generation, (%(statuses)s::text[])[place], epoch, publication_id,
           json_build_object('reason', (%(details)s::text[])[place]), now
    from recorded where (%(statuses)s::text[])[place] in ('refused', 'failed', 'uncertain')
)
select task_id from ledgence_deliveryintent
where task_id = any(%(tasks)s::uuid[])
  and publication_id = (%(publications)s::uuid[])[array_position(%(tasks)s::uuid[], task_id)]
  and publish_token = (%(tokens)s::uuid[])[array_position(%(tasks)s::uuid[], task_id)]
  and task_id <> all(array(select task_id from recorded))
