-- Tells people how queues are: due work and its age, work for later, and leases held. Counts stop at the cap plus one.
-- Every priority is named, so that each is a probe of the index: a queue's future work may be a million intents.
-- Locks: nothing. Index: ledgence_intent_due; leases are few and read whole.
-- Not the ORM: counts of limited lateral subqueries.
select q.id, due.count, extract(epoch from statement_timestamp() - due.oldest)::float8, later.count, held.count
from unnest(%(queues)s::int[]) q(id)
cross join lateral (
    select count(*), min(available_at) as oldest from (
        select i.available_at from ledgence_deliveryintent i
        where i.queue_id = q.id and i.priority = any(array(select generate_series(-100, 100)))
          and i.available_at <= statement_timestamp()
        limit %(cap)s + 1
    ) i
) due
cross join lateral (
    select count(*) from (
        select 1 from ledgence_deliveryintent i
        where i.queue_id = q.id and i.priority = any(array(select generate_series(-100, 100)))
          and i.available_at > statement_timestamp()
        limit %(cap)s + 1
    ) i
) later
cross join lateral (
    select count(*) from (select 1 from ledgence_lease l where l.queue_id = q.id limit %(cap)s + 1) l
) held
