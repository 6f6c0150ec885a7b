-- Records that housekeeping has just turned, unless another process has recorded it within %(rest_seconds)s. A moment to
-- come, from before the clock was set back, is replaced.
-- Locks: the one row, skipped while somebody holds it. Index: primary key. Not the ORM: the database's clock.
with due as materialized (
    select id from ledgence_housekeepingturn
    where turned_at not between clock_timestamp() - make_interval(secs => %(rest_seconds)s) and clock_timestamp()
    for no key update skip locked
),
recorded as (
    update ledgence_housekeepingturn t set turned_at = clock_timestamp() from due where t.id = due.id
)
insert into ledgence_housekeepingturn (id, turned_at)
select 1, clock_timestamp() where not exists (select 1 from ledgence_housekeepingturn)
on conflict (id) do nothing
