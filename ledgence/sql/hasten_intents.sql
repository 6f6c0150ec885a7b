-- Makes intents, which this transaction has locked, due now. One that was announced already, as by a republish, is
-- announced again; one that a publisher sends at this moment is left to it.
-- Locks: the intents (held already). Index: primary key. Not the ORM: the database's clock.
with clock as materialized (select clock_timestamp() as now)
update ledgence_deliveryintent i
set available_at = c.now,
    next_publish_at = case when i.publish_token is null and i.publication_id is not null then c.now
                           else i.next_publish_at end
from clock c
where i.task_id = any(%(tasks)s::uuid[]) and i.available_at > c.now
returning i.task_id, i.queue_id
