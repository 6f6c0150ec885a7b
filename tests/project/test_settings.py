"""The project's settings: what they need, and what they make of a database's address."""

import json
import os
import subprocess
import sys

import pytest
from django.db import connection

from ledgence_project.embedded.environment import CHECKOUT

SHOW = """
import json
from ledgence_project import settings
print(json.dumps({"DATABASE": settings.DATABASES["default"], "KEY": settings.SECRET_KEY, "DEBUG": settings.DEBUG}))
"""
ADDRESS = "postgresql://postgres@/ledgence?host=/srv/a%20b/socket"


def load(**variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(command, cwd=CHECKOUT, env=kept | variables, capture_output=True, text=True, check=False)


def test_a_missing_database_url_says_what_sets_it() -> None:
    loaded = load(SECRET_KEY="x")
    assert loaded.returncode != 0
    assert "DATABASE_URL is not set" in loaded.stderr
    assert "make demo" in loaded.stderr


def test_a_missing_secret_key_is_refused_outside_debug() -> None:
    loaded = load(DATABASE_URL=ADDRESS)
    assert "SECRET_KEY is not set" in loaded.stderr
    assert json.loads(load(DATABASE_URL=ADDRESS, DEBUG="true").stdout)["KEY"] == "development-only"


def test_a_sockets_folder_becomes_the_host() -> None:
    database = json.loads(load(DATABASE_URL=ADDRESS + "&port=6543", SECRET_KEY="x").stdout)["DATABASE"]
    assert (database["ENGINE"], database["NAME"], database["USER"]) == (
        "django.db.backends.postgresql",
        "ledgence",
        "postgres",
    )
    assert (database["HOST"], database["PORT"], database["OPTIONS"]) == ("/srv/a b/socket", "6543", {})


def test_a_networks_address_is_kept_with_its_options() -> None:
    address = "postgresql://me:p%40ss@db.internal:6432/work?sslmode=require"
    database = json.loads(load(DATABASE_URL=address, SECRET_KEY="x", CONN_MAX_AGE="0").stdout)["DATABASE"]
    assert (database["HOST"], database["PORT"], database["PASSWORD"]) == ("db.internal", 6432, "p@ss")
    assert database["OPTIONS"] == {"sslmode": "require"}
    assert database["CONN_MAX_AGE"] == 0


@pytest.mark.django_db
def test_the_suite_runs_on_the_postgresql_that_it_was_given() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_the_admin_asks_for_a_login(client) -> None:
    answer = client.get("/admin/login/")
    assert answer.status_code == 200
    assert "Django administration" in answer.content.decode() or "Ledgence" in answer.content.decode()
