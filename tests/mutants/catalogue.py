"""The mutants: which text of a statement or module becomes which, and the tests that must notice."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

PLACES = Path(__file__).with_name("mutants.toml")


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


MUTANTS = [Mutant(**fields) for fields in tomllib.loads(PLACES.read_text("utf-8"))["mutant"]]
