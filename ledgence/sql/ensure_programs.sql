-- Makes the programs that do not exist yet and fills in an entry point that was not known. An entry point that is known
-- never changes: find_programs tells. Locks: the rows of new or completed programs; waits for a concurrent writer.
-- Those that are complete are left out: ON CONFLICT would lock them until the caller's transaction ends.
-- Index: ledgence_program_version. Not the ORM: sorted upsert with a condition.
insert into ledgence_program as p (tenant, namespace, name, version, entry_point)
select c.tenant, c.namespace, c.name, c.version, max(c.entry_point)
from unnest(%(tenants)s::text[], %(namespaces)s::text[], %(names)s::text[], %(versions)s::text[],
            %(entry_points)s::text[]) c(tenant, namespace, name, version, entry_point)
where not exists (
    select 1 from ledgence_program k
    where k.tenant = c.tenant and k.namespace = c.namespace and k.name = c.name and k.version = c.version
      and (k.entry_point is not null or c.entry_point is null)
)
group by c.tenant, c.namespace, c.name, c.version
order by c.tenant, c.namespace, c.name, c.version
on conflict (tenant, namespace, name, version) do update set entry_point = excluded.entry_point
where p.entry_point is null and excluded.entry_point is not null
