-- Tells whether this role may do what operators leave to housekeeping: end pauses, and apply any action in chunks.
-- Locks: nothing. Index: none. Not the ORM: questions to the server about privileges.
select has_table_privilege('ledgence_operatoraction', 'select, insert')
   and has_column_privilege('ledgence_operatoraction', 'state', 'update')
   and has_table_privilege('ledgence_operatoractiontarget', 'select, insert')
   and has_column_privilege('ledgence_operatoractiontarget', 'answer', 'update')
   and has_column_privilege('ledgence_queue', 'paused_at', 'update')
   and has_column_privilege('ledgence_task', 'queue_id', 'update')
