-- An intent and a lease carry the number of charged attempts before them, counted from submission or the last requeue:
-- one that carries fewer runs again for ever, one that carries more ends too early.
with held as (
    select task_id, generation as number, cause, charged from ledgence_deliveryintent
    union all
    select l.task_id, l.number, a.cause, l.charged
    from ledgence_lease l join ledgence_attempt a on a.task_id = l.task_id and a.number = l.number
)
select h.task_id::text
from held h
where h.charged <> case when h.cause = 'requeued' then 0 else (
    select count(*) from ledgence_attempt a
    where a.task_id = h.task_id and a.number < h.number and a.outcome not in ('interrupted', 'suspended')
      and a.number >= coalesce(
          (select max(b.number) from ledgence_attempt b where b.task_id = h.task_id and b.cause = 'requeued'), 1)
) end
