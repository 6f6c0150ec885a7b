"""Programs as the ledger knows them: made on first use, and never changed."""

from collections.abc import Iterable
from typing import NamedTuple

from ledgence import sql
from ledgence_worker.errors import Conflict


class Wanted(NamedTuple):
    """A program that somebody names. ``entry_point`` None: it is not known here."""

    tenant: str
    namespace: str
    name: str
    version: str
    entry_point: str | None


def ensure_programs(wanted: Iterable[Wanted], *, using: str) -> list[int]:
    """Return the ids of programs, making those that are new.

    Raises Conflict over another entry point. Programs that exist with theirs are read and not locked.
    """
    programs = sorted(set(wanted), key=lambda program: (program[:4], program.entry_point or ""))
    columns = {
        "tenants": [program.tenant for program in programs],
        "namespaces": [program.namespace for program in programs],
        "names": [program.name for program in programs],
        "versions": [program.version for program in programs],
        "entry_points": [program.entry_point for program in programs],
    }
    sql.run("ensure_programs", using, columns)
    found = {Wanted(*row[1:])[:4]: (row[0], row[5]) for row in sql.run("find_programs", using, columns)}
    for program in programs:
        _, known = found[program[:4]]
        if program.entry_point is not None and program.entry_point != known:
            raise Conflict(
                f"Program {program.name!r} version {program.version!r} is {known}, and this process has "
                f"{program.entry_point}. A version never changes its entry point: register it under a new version."
            )
    return sorted(pk for pk, _ in found.values())
