-- Records for many channels at once that their next command was answered with nothing, where that is the next command of
-- an open session that may get work some time; tells which. The others are answered one by one, with what is wrong.
-- Locks: the channels, in no order that matters: those that a command holds are skipped, never waited for.
-- Index: ledgence_channel_number, ledgence_queue_name. Not the ORM: arrays, and locks that are skipped.
with asked as materialized (
    select * from unnest(%(sessions)s::uuid[], %(channels)s::int[], %(sequences)s::bigint[])
        asked(session_id, number, sequence)
),
held as materialized (
    select c.id, a.session_id, a.number, a.sequence
    from asked a
    cross join lateral (
        select id from ledgence_channel c
        where c.session_id = a.session_id and c.number = a.number and c.sequence = a.sequence - 1
        for no key update skip locked
    ) c
)
update ledgence_channel c
set sequence = h.sequence, tasks = '{}', attempts = '{}', answered_at = clock_timestamp()
from held h
where c.id = h.id and exists (
    select 1 from ledgence_workersession s
    where s.id = h.session_id and s.closed_at is null and s.expires_at > clock_timestamp()
      -- As find_external_only.
      and (s.queues = '{}' or exists (
          select 1 from unnest(s.queues) n(name)
          left join ledgence_queue q on q.tenant = s.tenant and q.namespace = s.namespace and q.name = n.name
          where n.name <> all(s.exclude_queues) and q.mode is distinct from 'external'
      ))
)
returning c.session_id, c.number
