-- Takes a channel for one command: locks its row and tells its session's standing. No row: make_channel.
-- Locks: the channel. Index: ledgence_channel_number and the session's primary key.
-- Not the ORM: a lock on one table of a join, and the database's clock.
select c.sequence, c.tasks, c.attempts, s.closed_at is null and s.expires_at > clock_timestamp(),
       s.drain_requested_at is not null
from ledgence_channel c join ledgence_workersession s on s.id = c.session_id
where c.session_id = %(session)s and c.number = %(channel)s
for no key update of c
