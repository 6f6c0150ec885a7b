-- Gives intents, which this transaction has locked, a new publication epoch, due as soon as the work is, and records that.
-- Whatever a publisher that holds one still says of the old publication counts no more.
-- Locks: the intents (held already). Index: primary key. Not the ORM: update and insert as one.
with intent as (
    update ledgence_deliveryintent i
    set epoch = i.epoch + 1,
        publication_id = case when i.queue_id = any(e.queues) then gen_random_uuid() end,
        next_publish_at = case when i.queue_id = any(e.queues) then greatest(i.available_at, clock_timestamp()) end,
        publish_token = null, confirmed_at = null, refusals = 0
    from (select array_agg(id) as queues from ledgence_queue where mode = 'external') e
    where i.task_id = any(%(tasks)s::uuid[])
    returning i.task_id, i.generation, i.epoch, i.publication_id, i.queue_id
),
event as (
    insert into ledgence_deliveryevent (task_id, generation, kind, epoch, publication_id, happened_at)
    select task_id, generation, 'republish', epoch, publication_id, clock_timestamp() from intent
)
select task_id, queue_id from intent
