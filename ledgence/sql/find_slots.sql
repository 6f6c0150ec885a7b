-- Counts what sessions run now, by program, the most frequent first.
-- Locks: nothing. Index: none: leases are few and read whole. Not the ORM: a limited aggregate with an array of sessions.
select p.name, p.version, count(*)
from ledgence_lease l join ledgence_program p on p.id = l.program_id
where l.session_id = any(%(sessions)s::uuid[])
group by p.name, p.version
order by count(*) desc, p.name, p.version
limit %(limit)s
