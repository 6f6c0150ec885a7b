-- Reads the caller's lock time-out, to give it back. Locks: nothing. Index: none. Not the ORM: a setting.
select current_setting('lock_timeout')
