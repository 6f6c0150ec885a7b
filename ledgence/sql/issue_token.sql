-- Issues a token unless it would be over already. Locks: the new row. Index: ledgence_token_public_id.
-- Not the ORM: the database's clock decides, and the row is made by the statement that asks it.
with clock as materialized (select clock_timestamp() as now)
insert into ledgence_apitoken (public_id, digest, name, roles, tenant, namespace, queues, created_at, expires_at)
select %(public_id)s, %(digest)s, %(name)s, %(roles)s::text[], %(tenant)s, %(namespace)s, %(queues)s::text[], c.now,
    %(expires_at)s::timestamptz
from clock c
where %(expires_at)s::timestamptz is null or %(expires_at)s::timestamptz > c.now
returning id
