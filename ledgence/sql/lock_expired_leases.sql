-- Locks a page of expired leases, for expiry to end them in the next statement. Equality is expired.
-- Locks: the leases, skipping held ones. Each page's rows are gone when it commits, so later rows cannot starve.
-- ``passed``: leases that could not be ended, which must not stand before the others. Index: ledgence_lease_expiry.
-- Not the ORM: kept beside its siblings.
select task_id, number, token, session_id from ledgence_lease
where expires_at <= statement_timestamp() and task_id <> all(%(passed)s::uuid[])
order by expires_at
limit %(limit)s
for update skip locked
