-- No idempotency key twice within a tenant and namespace.
select min(id::text) from ledgence_task
where idempotency_key is not null
group by tenant, namespace, idempotency_key having count(*) > 1
