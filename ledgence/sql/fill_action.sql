-- Names the tasks of an action that is applied in chunks, in their order, each with what is seen of it now: its revision,
-- the generation that is queued, or the attempt that is active. Their answers are empty until their chunk comes.
-- Locks: the new rows. Index: primary keys of task, intent and lease, one probe a task.
-- Not the ORM: tens of thousands of rows, made where they are.
insert into ledgence_operatoractiontarget (action_id, target, expected_revision, answer)
select %(action)s, r.id::text,
       case %(seen)s when 'revision' then t.revision when 'generation' then i.generation when 'attempt' then l.number end,
       ''
from unnest(%(tasks)s::uuid[]) with ordinality r(id, place)
left join lateral (select revision from ledgence_task where id = r.id and %(seen)s = 'revision' limit 1) t on true
left join lateral (
    select generation from ledgence_deliveryintent where task_id = r.id and %(seen)s = 'generation' limit 1
) i on true
left join lateral (select number from ledgence_lease where task_id = r.id and %(seen)s = 'attempt' limit 1) l on true
order by r.place
