-- Reads a task's data as the text that was submitted. Locks: nothing. Index: primary key.
-- Not the ORM: it would parse the text.
select data::text from ledgence_task where id = %(task)s
