"""How parameters are written: lists as arrays in PostgreSQL's own notation."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from ledgence.sql.text import bind
from tests.ledger.actors import execute

LISTS: list[tuple[str, list[Any]]] = [
    ("int", []),
    ("int", [1, -2, None]),
    ("float8", [0.1, 1e300]),
    ("bool", [True, False]),
    ("text", ["", "NULL", "null", '"', "\\", '\\"', "a,b", "{}", " ", "\n", "\u2028", "\U0001f600", None]),
    ("bytea", [b"", b"\x00\xff", b"\\"]),
    ("uuid", [UUID(int=0), UUID(int=2**128 - 1)]),
    ("timestamptz", [datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)]),
]


@pytest.mark.parametrize(("kind", "values"), LISTS, ids=[kind for kind, _ in LISTS])
def test_a_list_is_sent_as_one_text_that_the_server_reads_back(db: None, kind: str, values: list[Any]) -> None:
    parameters = bind({"values": values})
    assert type(parameters["values"]) is str
    [(found,)] = execute(f"select %(values)s::{kind}[]", parameters)
    assert found == values
