"""Which rows an action is asked for, and what a confirmation tells of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import Model
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from ledgence.operations.actions import TARGETS_MAX

#: How many of the rows the confirmation names.
SAMPLE = 10

type Word = str | Promise
#: Ids as they stand in addresses and forms, each with the revision that the operator sees.
type Targets = dict[str, int | None]
#: Tells why a row is not eligible, or None when it is.
type Judge = Callable[[Any], Word | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The kind of row that an action names: its model, how its ids are read, and how its rows are looked at.

    What ``find`` tells of a row is its own: only the judges of the same subject read it, but for its ``words``, which
    a confirmation shows.
    """

    model: type[Model]
    parse: Callable[[str], Any]
    find: Callable[[Sequence[Any]], Mapping[str, Any]]
    #: Tells which kinds of rows there are among thousands, and how many of each. None: there are never so many.
    survey: Callable[[Sequence[Any]], Iterable[tuple[Any, int]]] | None = None

    def parse_all(self, ids: Iterable[str]) -> list[Any]:
        """Read the ids that an action names. Raises BadRequest for what no page would send."""
        try:
            parsed = [self.parse(pk) for pk in ids]
        except ValueError:
            raise BadRequest("An id is not valid.") from None
        if not 0 < len(parsed) <= TARGETS_MAX:
            raise BadRequest(f"{len(parsed)} rows; an action takes 1 to {TARGETS_MAX}.")
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a confirmation tells: how many rows there are, how many are eligible, and why the others are not."""

    count: int
    eligible_count: int
    #: The first eligible ones: the id, and the words for it.
    sample: Sequence[tuple[str, str]]
    ineligible: Sequence[tuple[str, int]]

    @property
    def left_out(self) -> int:
        return self.eligible_count - len(self.sample)


def look_at(ids: Iterable[str], facts: Mapping[str, Any], judge: Judge) -> Look:
    """Judge rows one by one."""
    gone = _("no longer exists")
    verdicts = {pk: judge(facts[pk]) if pk in facts else gone for pk in ids}
    eligible = [pk for pk, why in verdicts.items() if why is None]
    return Look(
        count=len(verdicts),
        eligible_count=len(eligible),
        sample=[(pk, facts[pk].words) for pk in eligible[:SAMPLE]],
        ineligible=Counter(str(why) for why in verdicts.values() if why is not None).most_common(),
    )


def survey(ids: Sequence[Any], subject: Subject, judge: Judge) -> Look:
    """Judge thousands of rows, kind by kind. The sample is of the first ones."""
    if subject.survey is None or len(ids) <= TARGETS_MAX:
        return look_at(list(map(str, ids)), subject.find(ids), judge)
    counts: Counter[str | None] = Counter()
    for facts, count in subject.survey(ids):
        why = judge(facts)
        counts[None if why is None else str(why)] += count
    if gone := len(ids) - counts.total():
        counts[_("no longer exists")] += gone
    first = look_at([str(pk) for pk in ids[:TARGETS_MAX]], subject.find(ids[:TARGETS_MAX]), judge)
    return Look(
        count=len(ids),
        eligible_count=counts[None],
        sample=first.sample,
        ineligible=[(why, count) for why, count in counts.most_common() if why is not None],
    )


def write_targets(targets: Targets) -> str:
    """Write rows and what was seen of each as a form sends them."""
    return ",".join(pk if revision is None else f"{pk}:{revision}" for pk, revision in targets.items())


def read_targets(text: str, subject: Subject) -> Targets:
    """Read what write_targets wrote. Raises BadRequest."""
    targets: Targets = {}
    for part in text.split(","):
        pk, _separator, revision = part.partition(":")
        if revision and not (revision.isascii() and revision.isdecimal() and len(revision) < 10):
            raise BadRequest("A revision is not a number.")
        targets[pk] = int(revision) if revision else None
    return dict(zip(map(str, subject.parse_all(targets)), targets.values(), strict=True))
