-- A lease belongs to its task's last attempt, which has no outcome, with the same token and session.
select l.task_id::text
from ledgence_lease l
left join ledgence_attempt a on a.task_id = l.task_id and a.number = l.number
where a.id is null or a.outcome is not null or a.token <> l.token or a.session_id <> l.session_id
   or exists (select 1 from ledgence_attempt b where b.task_id = l.task_id and b.number > l.number)
