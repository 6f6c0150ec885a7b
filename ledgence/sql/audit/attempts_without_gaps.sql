-- Attempt numbers of a task are 1 to n without gaps, every one but the last has an outcome, and every one with an outcome
-- has a consequence.
select task_id::text
from ledgence_attempt
group by task_id
having min(number) <> 1 or max(number) <> count(*) or bool_or((outcome is null) <> (consequence is null))
    or count(*) filter (where outcome is null) > 1
    or coalesce(max(number) filter (where outcome is null), max(number)) <> max(number)
