"""Exit statuses in words: what killed a process, and what to look into."""

import pytest

from ledgence.exit_status import advise_exit, explain_exit, name_exit


@pytest.mark.parametrize(
    ("status", "name", "told", "advice"),
    [
        (-9, "-9 (SIGKILL)", "out-of-memory killer", "dmesg, journalctl -k) on web-1"),
        (-15, "-15 (SIGTERM)", "somebody asked this process to end", "stops processes on web-1"),
        (-11, "-11 (SIGSEGV)", "native code touched memory", "extension modules"),
        (-6, "-6 (SIGABRT)", "native code gave up", "end of its output"),
        (-7, "-7 (SIGBUS)", "a file in memory was cut short", "/dev/shm on web-1"),
        (-1, "-1 (SIGHUP)", "killed by signal SIGHUP", "worker's log on web-1"),
        (-250, "-250", "killed by signal 250", "worker's log on web-1"),
        (0, "0", "ended by itself without a result", "end of its output"),
        (7, "7", "ended by itself, as by os._exit()", "end of its output"),
        (127, "127", "was not found, or may not be run", "end of its output"),
        (137, "137", "out-of-memory killer", "dmesg, journalctl -k) on web-1"),
    ],
)
def test_a_status_is_named_explained_and_leads_on(status: int, name: str, told: str, advice: str) -> None:
    assert name_exit(status) == name
    assert told in explain_exit(status, "crashed")
    assert advice in advise_exit(status, "crashed", "web-1")


@pytest.mark.parametrize("outcome", ["timed_out", "cancelled", "interrupted"])
def test_what_the_worker_itself_killed_is_not_blamed_on_the_machine(outcome: str) -> None:
    assert explain_exit(-9, outcome) == "killed by its worker with SIGKILL: it was to stop, and did not in time"
    assert advise_exit(-9, outcome, "web-1") == ""
    assert "native code" in explain_exit(-11, outcome)


def test_without_a_host_the_machine_is_that_of_the_attempt() -> None:
    assert "on its machine" in advise_exit(-9, "crashed", "")
