-- Sets the lock time-out until the end of this transaction (a savepoint that is rolled back undoes it).
-- Locks: nothing. Index: none. Not the ORM: a setting; works through a transaction pooler.
select set_config('lock_timeout', %(value)s, true)
