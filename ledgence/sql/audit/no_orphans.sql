-- No intent, lease or attempt without its task, and none whose copied queue or program is not its task's.
select i.task_id::text from ledgence_deliveryintent i left join ledgence_task t on t.id = i.task_id
where t.id is null or t.queue_id <> i.queue_id or t.program_id <> i.program_id
union all
select l.task_id::text from ledgence_lease l left join ledgence_task t on t.id = l.task_id
where t.id is null or t.queue_id <> l.queue_id or t.program_id <> l.program_id
union all
select a.task_id::text from ledgence_attempt a left join ledgence_task t on t.id = a.task_id where t.id is null
