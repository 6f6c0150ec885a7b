"""A database clock that tests set: a schema that stands before pg_catalog and answers the time of a setting.

The statements under test name ``clock_timestamp()`` and ``statement_timestamp()`` without a schema, so a connection
whose search path begins with this schema lives at the moment that the test chose, to the microsecond.
"""

from datetime import datetime, timedelta

from django.db import connections

from tests.ledger.actors import USING, execute

SCHEMA = """
create schema if not exists frozen;
create or replace function frozen.clock_timestamp() returns timestamptz language sql volatile
    as $$ select current_setting('frozen.now')::timestamptz $$;
create or replace function frozen.statement_timestamp() returns timestamptz language sql stable
    as $$ select current_setting('frozen.now')::timestamptz $$;
"""
MICROSECOND = timedelta(microseconds=1)


class FrozenClock:
    """The clock of one connection. It stands still until it is moved."""

    def __init__(self, using: str = USING) -> None:
        self._using = using
        [(self.now,)] = execute("select pg_catalog.clock_timestamp()", using=using)
        execute("select set_config('search_path', 'frozen, public, pg_catalog', false)", using=using)
        self.set(self.now)

    def set(self, moment: datetime) -> None:
        """Let it be exactly ``moment``; back is allowed too."""
        self.now = moment
        execute("select set_config('frozen.now', %s, false)", [moment.isoformat()], using=self._using)

    def advance(self, **parts: float) -> None:
        """Move by a timedelta's parts."""
        self.set(self.now + timedelta(**parts))

    def thaw(self) -> None:
        """Give the connection the real clock back."""
        if connections[self._using].is_usable():
            execute("select set_config('search_path', 'public', false)", using=self._using)
