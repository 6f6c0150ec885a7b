-- Reads the tasks that hold idempotency keys, after submit_tasks found them taken.
-- Locks: nothing. Index: ledgence_task_key, one probe a key.
-- Not the ORM: a set of composite keys as arrays.
select k.place - 1, t.id, t.digest
from unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[]) with ordinality
     k(tenant, namespace, key, place)
cross join lateral (
    select id, digest from ledgence_task
    where tenant = k.tenant and namespace = k.namespace and idempotency_key = k.key
) t
