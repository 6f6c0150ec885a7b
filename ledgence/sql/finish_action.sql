-- Ends an action that is applied in chunks when every row has its answer. Locks: the action (no key update).
-- Index: primary key, and ledgence_action_pending. Not the ORM: the condition, and the database's clock.
update ledgence_operatoraction o
set state = 'done', finished_at = clock_timestamp()
where o.id = %(action)s and o.state = 'running'
  and not exists (select 1 from ledgence_operatoractiontarget t where t.action_id = o.id and t.answer = '')
returning o.matched, o.changed
