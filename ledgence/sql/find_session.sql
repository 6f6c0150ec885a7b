-- Reads whether a session is open, and for how many seconds more. Locks: nothing. Index: primary key.
-- Not the ORM: the database's clock.
select closed_at is null and expires_at > clock_timestamp(),
       extract(epoch from expires_at - clock_timestamp())::float8
from ledgence_workersession where id = %(session)s
