-- Closes a session. Locks: the session. Index: primary key. Not the ORM: the database's clock.
update ledgence_workersession set closed_at = clock_timestamp() where id = %(session)s and closed_at is null
