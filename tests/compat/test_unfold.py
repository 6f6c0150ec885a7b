"""django-unfold, which many projects install: every page answers and every action acts."""

from pathlib import Path

import pytest

from tests.compat.suite import PAGES, run_suite
from tests.servers import own_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_admins_tests_pass_with_django_unfold(tmp_path: Path) -> None:
    with own_server(tmp_path) as server:
        tests = [*PAGES, "tests/admin/test_actions.py"]
        run_suite(tests, database_url=server.url("ledgence"), settings="tests.compat.unfolded")
