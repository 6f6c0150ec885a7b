-- Finds the actions that are applied in chunks, the oldest first. Locks: nothing. Index: ledgence_action_running.
-- Not the ORM: asked by every process every few seconds, and nearly always in vain.
select id, kind, parameters from ledgence_operatoraction where state = 'running' order by acted_at, id
