"""Who holds the embedded server: it runs while at least one process does, and nobody's death leaves a stale holder.

A holder is a process with a shared lock on a file. The kernel drops the lock with the process, however it ends, so
there is no list of process ids to clean. Starting and stopping happen under a second, exclusive lock.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledgence_project.embedded.cluster import Cluster
from ledgence_project.embedded.place import binaries, place_of, system_user


def cluster_of(checkout: Path) -> Cluster:
    """Return the cluster of a checkout, whether or not it exists or runs."""
    return Cluster(folder=place_of(checkout) / "cluster", binaries=binaries(), user=system_user())


@contextmanager
def held(checkout: Path) -> Iterator[Cluster]:
    """Start the checkout's server or join its holders; stop it on leaving as the last one."""
    place = place_of(checkout)
    place.mkdir(parents=True, exist_ok=True)
    cluster = cluster_of(checkout)
    # Neither lock is inherited by the server or by the holder's children: Python opens files close-on-exec.
    with (place / "holders.lock").open("w") as holders:
        with _gate(place):
            fcntl.flock(holders, fcntl.LOCK_SH)
            cluster.start()
        try:
            yield cluster
        finally:
            # remove() may have taken the place away in the meantime.
            if place.exists():
                with _gate(place):
                    if _is_last(holders.fileno()):
                        cluster.stop()


def stop(checkout: Path) -> bool:
    """Stop the checkout's server, whoever holds it. Returns whether it was running."""
    place = place_of(checkout)
    if not place.exists():
        return False
    with _gate(place):
        return cluster_of(checkout).stop()


def remove(checkout: Path) -> bool:
    """Stop the checkout's server and delete its data. Returns whether there were any."""
    place = place_of(checkout)
    if not place.exists():
        return False
    with _gate(place):
        cluster_of(checkout).stop()
        shutil.rmtree(place)
    return True


@contextmanager
def _gate(place: Path) -> Iterator[None]:
    with (place / "gate.lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _is_last(holders: int) -> bool:
    try:
        fcntl.flock(holders, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
