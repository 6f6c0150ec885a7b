-- Reads how long ago housekeeping has last turned, in seconds (no row: never). Locks: nothing. Index: primary key.
-- Not the ORM: the database's clock.
select extract(epoch from clock_timestamp() - turned_at)::float8 from ledgence_housekeepingturn where id = 1
