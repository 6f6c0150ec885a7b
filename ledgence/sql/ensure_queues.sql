-- Makes the queues that do not exist yet. Locks: the new rows; waits for a concurrent insert of the same name.
-- Index: ledgence_queue_name. Not the ORM: sorted, so that two batches cannot deadlock.
insert into ledgence_queue (tenant, namespace, name, mode, paused_by, pause_reason)
select distinct tenant, namespace, name, 'integrated', '', ''
from unnest(%(tenants)s::text[], %(namespaces)s::text[], %(queues)s::text[]) q(tenant, namespace, name)
order by tenant, namespace, name
on conflict do nothing
