-- Takes the next rows of an action that have no answer yet, but for those to pass over, until the end of the transaction.
-- Locks: the rows, skipping those that another process has taken, in the order in which they were named.
-- Index: ledgence_action_pending, which holds such rows alone. Not the ORM: skip locked with a limit, many times a second.
select id, target, expected_revision from ledgence_operatoractiontarget
where action_id = %(action)s and answer = '' and target <> all(%(passed)s::text[])
order by id
limit %(limit)s
for update skip locked
