-- Reads the newest delivery events of one generation of a task.
-- Locks: nothing. Index: that of the foreign key to the task; by time and not by key, or the planner may prefer to walk the
-- primary key backwards through the events of all tasks. Not the ORM: JSON as text.
select kind, happened_at, detail::text from ledgence_deliveryevent
where task_id = %(task)s and generation = %(generation)s
order by happened_at desc, id desc
limit %(limit)s
