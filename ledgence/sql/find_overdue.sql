-- Reads for how many seconds the oldest lease has been over (negative: it is live).
-- Locks: nothing. Index: ledgence_lease_expiry. Not the ORM: the database's clock.
select extract(epoch from clock_timestamp() - min(expires_at))::float8 from ledgence_lease
