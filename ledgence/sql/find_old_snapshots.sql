-- Reads the sessions of this database whose transaction has held a snapshot for long. Locks: nothing. Index: none.
-- Not the ORM: statistics views.
select pid, extract(epoch from clock_timestamp() - xact_start)::float8
from pg_stat_activity
where datname = current_database() and backend_xmin is not null and pid <> pg_backend_pid()
  and xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
order by xact_start
