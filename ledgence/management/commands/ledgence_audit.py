"""The audit as a command."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ledgence.audit import INVARIANTS, audit
from ledgence.conf import get_settings
from ledgence.watch import old_snapshots, unpublished_queues, unserved_work

SHOWN = 20


class Command(BaseCommand):
    help = "Check the ledger's invariants. Exits 1 and names the offending ids if one does not hold."

    def handle(self, **options: Any) -> None:
        using = get_settings().database
        for pid, age in old_snapshots(using):
            self.stderr.write(f"warning: process {pid} has held a snapshot for {age:.0f} s; dead rows stay meanwhile")
        for work in unserved_work(using):
            program = f"{work.program} {work.version}"
            self.stderr.write(f"warning: queue {work.queue} has due work of {program}, which no live worker serves")
        for queue in unpublished_queues(using):
            self.stderr.write(f"warning: {queue}")
        violations = list(audit(using=using))
        for violation in violations:
            shown = ", ".join(violation.ids[:SHOWN])
            more = len(violation.ids) - SHOWN
            self.stderr.write(f"{violation.invariant}: {shown}" + (f" and {more} more" if more > 0 else ""))
        if violations:
            raise CommandError(f"{len(violations)} of {len(INVARIANTS)} invariants do not hold")
        self.stdout.write(f"audit ok: {len(INVARIANTS)} invariants hold")
