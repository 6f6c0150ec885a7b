-- Makes a channel of an existing session, for its first command. Locks: the new row; waits for a concurrent insert of it.
-- Index: ledgence_channel_number. Not the ORM: ON CONFLICT.
insert into ledgence_channel (session_id, number, sequence, tasks, attempts, answered_at)
select s.id, %(channel)s, 0, '{}', '{}', clock_timestamp()
from ledgence_workersession s where s.id = %(session)s
on conflict (session_id, number) do nothing
