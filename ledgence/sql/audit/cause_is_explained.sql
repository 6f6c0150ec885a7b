-- Every attempt's cause is how its predecessor ended: submitted for the first, the outcome that was retried, or requeued.
select b.task_id || '.' || b.number
from ledgence_attempt b left join ledgence_attempt a on a.task_id = b.task_id and a.number = b.number - 1
where b.cause is distinct from case when b.number = 1 then 'submitted'
                                    when a.consequence = 'retry' then a.outcome
                                    else 'requeued' end
