-- Finds a token that is neither revoked nor over; at equality it is over. Tells how many seconds it has left (null: it
-- never expires) and whether its use is to be recorded. Locks: nothing. Index: ledgence_token_public_id.
-- Not the ORM: the database's clock.
with clock as materialized (select clock_timestamp() as now)
select t.id, t.digest, t.name, t.roles, t.tenant, t.namespace, t.queues,
    extract(epoch from t.expires_at - c.now)::float8 as seconds_left,
    t.last_used_at is null or t.last_used_at <= c.now - make_interval(secs => %(record_seconds)s) as is_use_due
from ledgence_apitoken t, clock c
where t.public_id = %(public_id)s and t.revoked_at is null and (t.expires_at is null or t.expires_at > c.now)
