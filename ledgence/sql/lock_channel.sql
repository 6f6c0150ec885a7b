-- Takes a channel for one command: locks its row (made on first use) and tells its session's standing.
-- Locks: the channel. Index: ledgence_channel_number and the session's primary key.
-- Not the ORM: insert and lock in one statement.
insert into ledgence_channel as c (session_id, number, sequence, tasks, attempts, answered_at)
select s.id, %(channel)s, 0, '{}', '{}', clock_timestamp()
from ledgence_workersession s where s.id = %(session)s
on conflict (session_id, number) do update set sequence = c.sequence
returning c.sequence, c.tasks, c.attempts,
    (select s.closed_at is null and s.expires_at > clock_timestamp() from ledgence_workersession s where s.id = c.session_id)
