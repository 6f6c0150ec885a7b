-- Records on a locked channel what its command was answered. Locks: the channel (held already).
-- Index: ledgence_channel_number. Not the ORM: arrays.
update ledgence_channel
set sequence = %(sequence)s, tasks = %(tasks)s::uuid[], attempts = %(attempts)s::int[], answered_at = clock_timestamp()
where session_id = %(session)s and number = %(channel)s
