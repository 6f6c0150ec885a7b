-- Reads how long until the next lease expires, in seconds (no row: no lease). Locks: nothing.
-- Index: ledgence_lease_expiry. Not the ORM: the clock.
select extract(epoch from expires_at - clock_timestamp())::float8 from ledgence_lease order by expires_at limit 1
