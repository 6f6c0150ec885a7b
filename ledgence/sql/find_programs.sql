-- Reads programs by name and version. Locks: nothing. Index: ledgence_program_version.
-- Not the ORM: composite keys as arrays.
select p.id, p.name, p.version, p.entry_point
from unnest(%(names)s::text[], %(versions)s::text[]) c(name, version)
join ledgence_program p on p.name = c.name and p.version = c.version
