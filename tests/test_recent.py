"""Recent: what was asked for last stays, and all threads get the same value."""

import threading

from ledgence.recent import Recent


def test_what_was_asked_for_last_stays() -> None:
    recent: Recent[str, int] = Recent(2)
    for number, key in enumerate("ab"):
        assert recent.get(key) is None
        assert recent.get_or_make(key, lambda n=number: n) == number  # type: ignore[misc]
    # Asked for in both ways.
    assert recent.get("a") == 0
    assert recent.get_or_make("c", lambda: 2) == 2
    assert [recent.get(key) for key in "abc"] == [0, None, 2]
    assert recent.get_or_make("a", lambda: 9) == 0
    recent.get_or_make("d", lambda: 3)
    assert [recent.get(key) for key in "acd"] == [0, None, 3]


def test_threads_that_ask_at_once_get_the_same_value() -> None:
    recent: Recent[int, object] = Recent(10)
    barrier, found = threading.Barrier(8), []

    def ask() -> None:
        barrier.wait(20)
        for key in range(1000):
            found.append((key, id(recent.get_or_make(key, object))) if key < 10 else (key, id(recent.get(key))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 8000
    assert len(set(found)) == 1000
