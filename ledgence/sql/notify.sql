-- Sends a hint. On its own, after the commit of what it tells: inside, NOTIFY would serialize every commit.
-- Locks: the notification queue, for a moment. Index: none. Not the ORM: NOTIFY.
select pg_notify(%(channel)s, %(payload)s)
