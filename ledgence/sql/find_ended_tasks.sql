-- Finds which of many tasks have ended, or do not exist any more. Locks: nothing. Index: the task's primary key.
-- Not the ORM: an array of any length in one parameter.
select asked.id from unnest(%(tasks)s::uuid[]) asked(id)
left join ledgence_task t on t.id = asked.id
where t.id is null or t.outcome is not null
