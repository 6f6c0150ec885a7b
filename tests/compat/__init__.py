"""The same tests on the other services that are supported: PostgreSQL 15, PgBouncer, Django 5.2."""
