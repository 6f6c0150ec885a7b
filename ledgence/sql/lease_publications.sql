-- Leases due publications of one queue to a publisher, those first that have been due the longest. One that was confirmed
-- is due because nobody claimed the work in time: it is repaired with a new epoch and publication. One that still has a
-- token was leased by a publisher that died: the same publication is sent again, and that is recorded as uncertain.
-- A leased row is due again when its lease ends, so it leaves the due range and comes back by itself. Nothing is leased
-- while the queue is paused, or routed elsewhere than to where the publisher sends.
-- statement_timestamp() where the index is searched, as in find_due. ``since``: where the live head began; what lies before
-- it are dead rows, which an old snapshot keeps, and what came late: the caller looks from the start once a second.
-- The first columns are when it looked, and when the last one of these was due; a row without a task says that none was.
-- Locks: the intents (no key update), skipping held ones, so it never waits. The clock is read after the locks.
-- Index: ledgence_intent_publish, and the intent's primary key. Rows are named as arrays, not joined: with statistics of an
-- empty table each row of a join would be looked for in a whole index. Not the ORM: lock, update and insert in one statement.
with held as materialized (
    select i.task_id, i.next_publish_at, i.confirmed_at is not null as is_repair, i.publish_token is not null as is_orphan
    from ledgence_queue q
    cross join lateral (
        select * from ledgence_deliveryintent
        where queue_id = q.id and next_publish_at <= statement_timestamp()
          and next_publish_at >= coalesce(%(since)s::timestamptz, '-infinity')
        order by next_publish_at, task_id
        limit %(limit)s
        for no key update skip locked
    ) i
    where q.id = %(queue)s and q.mode = 'external' and q.destination = %(destination)s and q.paused_at is null
),
clock as materialized (select clock_timestamp() as now from (select count(*) from held) after_the_locks),
leased as (
    update ledgence_deliveryintent i
    set publish_token = %(token)s::uuid, next_publish_at = c.now + make_interval(secs => %(lease_seconds)s),
        publications = i.publications + 1, last_published_at = c.now,
        first_published_at = coalesce(i.first_published_at, c.now), confirmed_at = null,
        epoch = i.epoch + (i.confirmed_at is not null)::int,
        publication_id = case when i.confirmed_at is not null then gen_random_uuid() else i.publication_id end
    from clock c
    where i.task_id = any(array(select task_id from held))
    returning i.task_id, i.generation, i.epoch, i.publication_id, c.now
),
event as (
    insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, happened_at)
    select task_id, generation,
           case when task_id = any(array(select task_id from held where is_repair)) then 'repair' else 'uncertain' end,
           epoch, publication_id, now
    from leased where task_id = any(array(select task_id from held where is_repair or is_orphan))
)
select s.looked_at, (select max(next_publish_at) from held), l.task_id, l.generation, l.publication_id
from (select statement_timestamp() as looked_at) s left join leased l on true
order by array_position(array(select task_id from held), l.task_id)
