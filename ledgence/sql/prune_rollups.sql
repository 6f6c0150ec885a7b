-- Deletes old counts, a bounded number at a time.
-- Locks: those rows, in the order of their ids; whoever deletes the same ones at the same time waits, and finds them gone.
-- Index: ledgence_rollup_minute, and the primary key. Not the ORM: the database's clock.
delete from ledgence_rollup
where id = any(array(
    select id from ledgence_rollup
    where minute < clock_timestamp() - make_interval(secs => %(kept_seconds)s)
    order by minute limit %(limit)s
))
