-- Extends an open session. Locks: the session. Index: primary key. Not the ORM: the database's clock.
update ledgence_workersession
set expires_at = clock_timestamp() + make_interval(secs => %(session_seconds)s), extended_at = clock_timestamp()
where id = %(session)s and closed_at is null and expires_at > clock_timestamp()
