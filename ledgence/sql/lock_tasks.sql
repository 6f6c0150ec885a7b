-- Locks terminal tasks, for requeue. Locks: the tasks (no key update) in order; a task that is not terminal belongs to
-- the holder of its intent or lease and is left alone. Index: primary key. Not the ORM: kept beside its siblings.
select id from ledgence_task where id = any(%(tasks)s::uuid[]) and outcome is not null order by id for no key update
