"""How an operator's command acts: on rows that are named, with a reason, in recorded operations, told one by one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.operating import (
    EXIT_CODES,
    STDIN,
    OperatingCode,
    add_format,
    aligned,
    make_operator,
    to_json,
    words_of_stdin,
)
from ledgence.models import Queue
from ledgence.operations.actions import TARGETS_MAX, Answers, Operator
from ledgence.operations.routes import QueueName
from ledgence_worker.errors import LedgenceError

#: What a reason must have at least and at most, in characters; the pages ask for the same.
REASON_LENGTHS = (5, 1000)
#: More rows than this are acted on only by those who say how many they mean.
UNCOUNTED_MAX = 100


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a command: the records, and the answer for each row by the name that it was given."""

    actions: list[UUID] = field(default_factory=list)
    answers: Answers = field(default_factory=dict)
    unchanged: frozenset[str]

    @property
    def skipped(self) -> dict[str, int]:
        return dict(Counter(answer for answer in self.answers.values() if answer in self.unchanged))

    @property
    def changed(self) -> int:
        return len(self.answers) - sum(self.skipped.values())


class ActingCommand(BaseCommand):
    """A command that acts. A subclass names its rows, finds them, and performs the operation."""

    #: What the rows are called in the usage, and how they are given.
    metavar = "ID"
    names_help = ""
    #: The answers that changed nothing.
    unchanged: frozenset[str] = frozenset({"not_found"})

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EXIT_CODES
        parser.add_argument("names", nargs="+", metavar=self.metavar, help=self.names_help)
        parser.add_argument("--reason", required=True, help="Why, in 5 to 1,000 characters. Kept in the record.")
        parser.add_argument(
            "--count", type=int, metavar="N", help=f"How many rows you mean; required above {UNCOUNTED_MAX}."
        )
        add_format(parser)

    def handle(self, *, names: list[str], reason: str, count: int | None, format: str, **options: Any) -> None:
        using = get_settings().database
        wanted = read_names(names)
        check_wanted(wanted, reason, count)
        targets = self.find(wanted, options, using=using)
        outcome = Outcome(unchanged=self.unchanged)
        for chunk in batched(targets.items(), TARGETS_MAX):
            self._act(dict(chunk), make_operator(reason), outcome, options, using=using)
        self._tell(outcome, format)
        if outcome.skipped:
            raise SystemExit(OperatingCode.SKIPPED)

    def find(self, names: Sequence[str], options: Mapping[str, Any], *, using: str) -> dict[str, Any]:
        """Return what the operation takes of each row, by the name that was given."""
        raise NotImplementedError

    def perform(
        self, targets: Mapping[str, Any], operator: Operator, options: Mapping[str, Any], *, using: str
    ) -> Answers:
        """Act on rows, and return the answers by the names that were given."""
        raise NotImplementedError

    def _act(
        self,
        targets: Mapping[str, Any],
        operator: Operator,
        outcome: Outcome,
        options: Mapping[str, Any],
        *,
        using: str,
    ) -> None:
        try:
            answers = self.perform(targets, operator, options, using=using)
        except LedgenceError as error:
            before = len(outcome.answers)
            told = f" Of the rows before, {before} were acted on, as recorded." if before else ""
            raise CommandError(f"{error}{told}", returncode=OperatingCode.REFUSED) from error
        outcome.actions.append(operator.action_id)
        outcome.answers |= {name: answers[name] for name in targets}

    def _tell(self, outcome: Outcome, format: str) -> None:
        if format == "json":
            self.stdout.write(
                to_json(
                    {
                        "actions": outcome.actions,
                        "changed": outcome.changed,
                        "skipped": outcome.skipped,
                        "answers": outcome.answers,
                    }
                )
            )
            return
        for line in aligned([(name, _words(answer)) for name, answer in outcome.answers.items()]):
            self.stdout.write(line)
        skipped = ", ".join(f"{count} {_words(answer)}" for answer, count in outcome.skipped.items())
        record = ", ".join(map(str, outcome.actions))
        self.stderr.write(
            f"Changed {outcome.changed}, skipped {sum(outcome.skipped.values())}{f' ({skipped})' if skipped else ''}. "
            f"Recorded as {record}.",
            style_func=str,
        )


def read_names(names: Iterable[str]) -> list[str]:
    """Return the rows that were named, each once, those of the standard input where ``-`` stands."""
    given: Iterator[str] = (word for name in names for word in (words_of_stdin() if name == STDIN else [name]))
    return list(dict.fromkeys(given))


def check_wanted(names: Sequence[str], reason: str, count: int | None) -> None:
    """Refuse what the pages refuse too: nothing named, no proper reason, many rows without their number."""
    low, high = REASON_LENGTHS
    if not names:
        raise _usage("Nothing was named; nothing was changed.")
    if not low <= len(reason.strip()) <= high:
        raise _usage(f"A reason has {low} to {high:,} characters, not {len(reason.strip())}; nothing was changed.")
    if count is None and len(names) > UNCOUNTED_MAX:
        raise _usage(f"{len(names)} rows are named. Add --count {len(names)} if you mean them; nothing was changed.")
    if count is not None and count != len(names):
        raise _usage(f"{len(names)} rows are named, not {count}; nothing was changed.")


def find_queues(names: Sequence[str], options: Mapping[str, Any], *, using: str) -> dict[str, Queue]:
    """Return queues by name, of the scope that the options name. Raises CommandError for one that does not exist."""
    settings = get_settings()
    scope = {
        part: getattr(settings, part) if options[part] is None else options[part] for part in ("tenant", "namespace")
    }
    found = {queue.name: queue for queue in Queue.objects.using(using).filter(name__in=names, **scope)}
    for name in names:
        if name not in found:
            unknown = QueueName(**scope, queue=name)
            raise CommandError(f"There is no queue {unknown}; nothing was changed.", returncode=OperatingCode.REFUSED)
    return {name: found[name] for name in names}


def add_scope(parser: CommandParser) -> None:
    """Add the options that name the scope of queues."""
    parser.add_argument("--tenant", help="Default: that of the settings.")
    parser.add_argument("--namespace", help="Default: that of the settings.")


def _words(answer: str) -> str:
    return answer.replace("_", " ")


def _usage(text: str) -> CommandError:
    return CommandError(text, returncode=OperatingCode.USAGE)
