-- A terminal task's revision is odd (each requeue and each end adds one), and each requeue is recorded with who and why.
select t.id::text
from ledgence_task t
where (t.revision % 2 = 1) <> (t.outcome is not null)
   or (t.revision >= 2 and t.revision / 2 <> (
        select count(*) from ledgence_operatoractiontarget g join ledgence_operatoraction o on o.id = g.action_id
        where g.target = t.id::text and o.kind = 'requeue' and g.answer = 'requeued'))
