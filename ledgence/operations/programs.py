"""Programs as the ledger knows them: made on first use, and never changed."""

from collections.abc import Iterable

from ledgence import sql
from ledgence_worker.errors import Conflict


def ensure_programs(wanted: Iterable[tuple[str, str, str | None]], *, using: str) -> list[int]:
    """Return the ids of programs by name, version and entry point (None: not known here), making those that are new.

    Raises Conflict over another entry point. Programs that exist with theirs are read and not locked.
    """
    programs = sorted(set(wanted), key=lambda entry: (entry[0], entry[1], entry[2] or ""))
    columns = {
        "names": [name for name, _, _ in programs],
        "versions": [version for _, version, _ in programs],
        "entry_points": [entry_point for _, _, entry_point in programs],
    }
    sql.run("ensure_programs", using, columns)
    found = {
        (name, version): (pk, entry_point)
        for pk, name, version, entry_point in sql.run("find_programs", using, columns)
    }
    for name, version, entry_point in programs:
        _, known = found[name, version]
        if entry_point is not None and entry_point != known:
            raise Conflict(
                f"Program {name!r} version {version!r} is {known}, and this process has {entry_point}. "
                "A version never changes its entry point: register it under a new version."
            )
    return sorted(pk for pk, _ in found.values())
