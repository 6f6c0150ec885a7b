-- Begins an operator action: inserts its row unless its id exists. Locks: the new row; waits for a concurrent insert of
-- the same id. Index: primary key. Not the ORM: ON CONFLICT that tells which it was.
insert into ledgence_operatoraction (id, kind, actor_id, actor_name, reason, parameters, scope, state, matched, acted_at)
values (%(id)s, %(kind)s, %(actor)s, %(actor_name)s, %(reason)s, %(parameters)s::json, %(scope)s::json, %(state)s,
        %(matched)s, clock_timestamp())
on conflict do nothing
returning id
