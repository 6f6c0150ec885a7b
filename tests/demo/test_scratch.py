"""The benchmark's own database is reached as the project's is, and its server may be one that counts no statements."""

import os
from typing import Any

import psycopg
import pytest
from django.db import connections

from ledgence_project.demo import drain, scratch
from tests.ledger.actors import USING


class Silent:
    """A server without pg_stat_statements: the setting does not exist, and nothing else may be asked."""

    def execute(self, query: str, *_: Any) -> "Silent":
        assert "current_setting('pg_stat_statements.max', true)" in query
        return self

    def fetchone(self) -> tuple[bool]:
        return (False,)


def test_a_server_that_counts_no_statements_is_not_asked_for_them():
    assert drain.idle_statements(Silent(), 0.0, using=USING) is None  # type: ignore[arg-type]


def test_the_address_for_children_keeps_every_option_of_the_connection():
    settings = {"USER": "a b", "PASSWORD": "p/w", "HOST": "db", "PORT": "5433", "NAME": "own"}
    url = scratch._url({**settings, "OPTIONS": {"sslmode": "require", "application_name": "x y"}})
    assert url == "postgresql://a%20b:p%2Fw@/own?host=db&port=5433&sslmode=require&application_name=x+y"


def test_the_other_connection_keeps_them_too(monkeypatch):
    told: dict[str, Any] = {}

    def connect(**parameters: Any) -> None:
        told.update(parameters)
        raise psycopg.OperationalError("It was only to be told.")

    monkeypatch.setattr(psycopg, "connect", connect)
    monkeypatch.setitem(connections.settings[USING]["OPTIONS"], "sslmode", "require")
    with pytest.raises(psycopg.OperationalError), scratch.scratch_database(USING):
        pass
    assert (told["sslmode"], told["dbname"], told["autocommit"]) == ("require", "postgres", True)
    assert os.environ["DATABASE_URL"]
