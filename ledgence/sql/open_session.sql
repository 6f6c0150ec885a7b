-- Opens a worker session unless its id exists. Locks: the new row. Index: primary key.
-- Not the ORM: ON CONFLICT, and the database's clock.
insert into ledgence_workersession (id, tenant, namespace, name, host, pid, version, concurrency, queues, exclude_queues,
                                    programs, opened_at, extended_at, expires_at)
values (%(session)s, %(tenant)s, %(namespace)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(concurrency)s,
        %(queues)s::text[], %(exclude_queues)s::text[], %(programs)s::int[], clock_timestamp(), clock_timestamp(),
        clock_timestamp() + make_interval(secs => %(session_seconds)s))
on conflict do nothing
