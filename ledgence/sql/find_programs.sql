-- Reads programs by tenant, namespace, name and version. Locks: nothing. Index: ledgence_program_version.
-- Not the ORM: composite keys as arrays.
select p.id, p.tenant, p.namespace, p.name, p.version, p.entry_point
from unnest(%(tenants)s::text[], %(namespaces)s::text[], %(names)s::text[], %(versions)s::text[])
    c(tenant, namespace, name, version)
join ledgence_program p on p.tenant = c.tenant and p.namespace = c.namespace and p.name = c.name and p.version = c.version
