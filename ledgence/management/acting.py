"""How an operator's command acts: on rows that are named, with a reason, in one recorded action, told row by row."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledgence.conf import get_settings
from ledgence.management.operating import (
    EXIT_CODES,
    STDIN,
    OperatingCode,
    add_format,
    aligned,
    check_reason,
    make_operator,
    to_json,
    words_of_stdin,
    wrong_usage,
)
from ledgence.operations.actions import REASON_LENGTHS, TYPED_ABOVE, Answers, Operator, count_skipped
from ledgence_worker.errors import LedgenceError


class ActingCommand(BaseCommand, ABC):
    """A command that acts. A subclass names its rows, finds them, and performs the operation."""

    #: What the rows are called in the usage, and how they are given.
    metavar = "ID"
    names_help = ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EXIT_CODES
        low, high = REASON_LENGTHS
        parser.add_argument("names", nargs="+", metavar=self.metavar, help=self.names_help)
        parser.add_argument(
            "--reason", required=True, help=f"Why, in {low} to {high:,} characters; kept in the record."
        )
        parser.add_argument("--count", type=int, metavar="N", help=f"How many rows you mean; above {TYPED_ABOVE}.")
        add_format(parser)

    def handle(self, *, names: list[str], reason: str, count: int | None, format: str, **options: Any) -> None:
        wanted = read_names(names)
        check_wanted(wanted, reason, count)
        operator = make_operator(reason)
        try:
            answers = self.act(wanted, operator, options, using=get_settings().database)
        except LedgenceError as error:
            raise CommandError(str(error), returncode=OperatingCode.REFUSED) from error
        skipped = count_skipped(answers)
        changed = len(answers) - sum(skipped.values())
        if format == "json":
            told = {"action": operator.action_id, "changed": changed, "skipped": skipped, "answers": answers}
            self.stdout.write(to_json(told))
        else:
            self._tell(operator, answers, changed, skipped)
        if skipped:
            raise SystemExit(OperatingCode.SKIPPED)

    @abstractmethod
    def act(self, names: Sequence[str], operator: Operator, options: Mapping[str, Any], *, using: str) -> Answers:
        """Act on the rows of these names in one recorded action, and return the answers by name."""

    def _tell(self, operator: Operator, answers: Answers, changed: int, skipped: Mapping[str, int]) -> None:
        for line in aligned([(name, _words(answer)) for name, answer in answers.items()]):
            self.stdout.write(line)
        why = ", ".join(f"{count} {_words(answer)}" for answer, count in skipped.items())
        self.stderr.write(
            f"Changed {changed}, skipped {sum(skipped.values())}{f' ({why})' if why else ''}. "
            f"Recorded as {operator.action_id}.",
            style_func=str,
        )


def read_names(names: Iterable[str]) -> list[str]:
    """Return the rows that were named, each once, those of the standard input where ``-`` stands."""
    given: Iterator[str] = (word for name in names for word in (words_of_stdin() if name == STDIN else [name]))
    return list(dict.fromkeys(given))


def check_wanted(names: Sequence[str], reason: str, count: int | None) -> None:
    """Refuse what the pages refuse too: nothing named, no proper reason, many rows without their number."""
    if not names:
        raise wrong_usage("Nothing was named; nothing was changed.")
    check_reason(reason)
    if count is None and len(names) > TYPED_ABOVE:
        raise wrong_usage(f"{len(names)} rows are named. Add --count {len(names)} if you mean them all.")
    if count is not None and count != len(names):
        raise wrong_usage(f"{len(names)} rows are named, not {count}; nothing was changed.")


def _words(answer: str) -> str:
    return answer.replace("_", " ")
