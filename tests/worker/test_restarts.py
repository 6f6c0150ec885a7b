"""The pause between starts that fail."""

from ledgence_worker.restarts import PAUSE_SECONDS, PAUSE_SECONDS_MAX, Restarts


def test_pauses_double_up_to_the_maximum_and_end_with_a_success() -> None:
    now = 100.0
    restarts = Restarts(clock=lambda: now)
    seen = [restarts.is_paused]
    for number in range(2000):
        restarts.fail(f"reason {number}")
        pause = min(PAUSE_SECONDS * 2.0 ** min(number, 50), PAUSE_SECONDS_MAX)
        now += pause - 0.001
        seen.append(restarts.is_paused)
        now += 0.002
        seen.append(restarts.is_paused)
    assert seen == [False, *[True, False] * 2000]
    assert restarts.reason == "reason 1999"
    restarts.succeed()
    restarts.fail("again")
    now += PAUSE_SECONDS
    assert not restarts.is_paused
