-- Makes a policy that does not exist yet. Locks: the new row; waits for a concurrent insert of the same digest.
-- Index: the unique index on digest. Not the ORM: ON CONFLICT without an error.
insert into ledgence_policy (digest, max_attempts, timeout_seconds, backoff_initial_seconds, backoff_factor,
                             backoff_maximum_seconds, backoff_jitter, retry_on)
values (%(digest)s, %(max_attempts)s, %(timeout_seconds)s, %(initial_seconds)s, %(factor)s, %(maximum_seconds)s,
        %(jitter)s, %(retry_on)s::text[])
on conflict do nothing
