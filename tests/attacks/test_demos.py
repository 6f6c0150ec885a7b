"""Two demonstrations on one database at once, as two people in one checkout start them."""

import os
import subprocess
import sys

import pytest

from ledgence_project.embedded.environment import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.process]


def test_demonstrations_do_not_disturb_each_other(database_url: str):
    command = [sys.executable, str(CHECKOUT / "manage.py"), "ledgence_demo", "--files", "60", "--timeout", "90"]
    environment = os.environ | {"DATABASE_URL": database_url, "DEBUG": "true"}
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    for process in running:
        output, _ = process.communicate(timeout=110)
        assert process.returncode == 0, output
        assert "demo ok: submitted=60 succeeded=60 failed=0" in output
