"""The mutants: which text of a statement or module becomes which, and the tests that must notice."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

PLACES = Path(__file__).with_name("mutants.toml")


class StaleMutant(Exception):
    """What a mutant changes was itself changed: correct mutants.toml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard taken out. ``place`` is a statement's name, or a module's dotted name; ``old`` stands there once."""

    name: str
    place: str
    old: str
    new: str
    tests: list[str]

    @property
    def is_statement(self) -> bool:
        return "." not in self.place

    def change(self, text: str) -> str:
        """Return the text with the guard taken out. Raises StaleMutant when it is not there, or not once."""
        if (count := text.count(self.old)) != 1:
            raise StaleMutant(f"{self.name}: {self.old!r} stands {count} times in {self.place}, not once.")
        return text.replace(self.old, self.new)


MUTANTS = [Mutant(**fields) for fields in tomllib.loads(PLACES.read_text("utf-8"))["mutant"]]
