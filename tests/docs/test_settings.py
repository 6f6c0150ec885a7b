"""docs/settings.md says what the code says: settings, options, checks and limits, each with its value."""

import ast
import re
from argparse import Action, ArgumentParser
from dataclasses import fields
from typing import Any

from django.core.management import load_command_class

from ledgence.conf import LedgenceSettings
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker import limits
from ledgence_worker.connect import add_connect_options
from ledgence_worker.lease import margin_seconds
from tests.docs.reading import DOCS, table

PAGE = DOCS / "settings.md"
#: Django's own options, which every command has.
DJANGOS = {"-h", "--help", "--version", "-v", "--verbosity", "--settings", "--pythonpath", "--traceback"}
DJANGOS |= {"--no-color", "--force-color", "--skip-checks"}
OTHER_COMMANDS = (
    "ledgence_recover",
    "ledgence_publisher",
    "ledgence_route",
    "ledgence_explain",
    "ledgence_status",
    "ledgence_requeue",
    "ledgence_cancel",
    "ledgence_pause",
    "ledgence_resume",
    "ledgence_audit",
)
#: What the page says for a default that is none.
NO_LIMIT = ("without limit", "none", "no", "all queues", "the host's name", "the database")


def options_of(command: str) -> list[Action]:
    parser = load_command_class("ledgence", command).create_parser("manage.py", command)
    return [action for action in parser._actions if not set(action.option_strings) & DJANGOS]


def test_every_setting_stands_there_with_its_default() -> None:
    told = {row["Setting"]: ast.literal_eval(row["Default"]) for row in table(PAGE, "Setting")}
    values = LedgenceSettings()
    assert told == {field.name.upper(): getattr(values, field.name) for field in fields(values)}
    assert all(row["Unit"] and row["Meaning"] for row in table(PAGE, "Setting"))


def test_durations_are_told_in_seconds_and_nothing_else_is() -> None:
    for row in table(PAGE, "Setting"):
        assert (row["Unit"] == "seconds") == row["Setting"].endswith("_SECONDS"), row["Setting"]


def test_the_times_that_follow_from_the_lease_are_right() -> None:
    rows = {row["Time"].partition(":")[0]: row["With L = 60 s"] for row in table(PAGE, "Time")}
    settings = LedgenceSettings()
    assert settings.lease_seconds == 60
    assert rows["clean-up"] == f"{settings.cleanup_seconds:g} s"
    assert rows["margin"] == f"{margin_seconds(settings.lease_seconds):g} s"


def test_every_option_of_the_worker_stands_there_with_its_default() -> None:
    told = {row["Option"].partition(" ")[0]: row for row in table(PAGE, "Option")}
    known = {action.option_strings[-1]: action for action in options_of("ledgence_worker")}
    assert told.keys() == known.keys()
    for name, row in told.items():
        action = known[name]
        assert row["Option"].partition(" ")[2] == ("" if action.nargs == 0 else action.metavar or name[2:].upper())
        if row["Default"] in NO_LIMIT:
            assert action.default in (None, [], "", False), name
        else:
            assert float(row["Default"]) == action.default, name


def test_every_option_of_connect_stands_there() -> None:
    connect = ArgumentParser(add_help=False)
    add_connect_options(connect)
    told = [row["Option of connect"] for row in table(PAGE, "Option of connect")]
    assert told == [f"{action.option_strings[0]} {action.metavar}" for action in connect._actions]


def test_the_other_commands_have_no_option_that_is_not_told() -> None:
    text = PAGE.read_text()
    for command in OTHER_COMMANDS:
        section = text.partition(f"## manage.py {command}\n")[2].partition("\n## ")[0]
        assert section, command
        known = {action.option_strings[-1] for action in options_of(command) if action.option_strings}
        assert known == set(re.findall(r"(--[a-z][\w-]+)", section)), command


def test_every_check_stands_there() -> None:
    code = (CHECKOUT / "ledgence" / "checks.py").read_text()
    ids = re.findall(r'id="(ledgence\.[EW]\d+)"', code)
    assert [row["Check"] for row in table(PAGE, "Check")] == sorted(ids)


def test_every_limit_stands_there_with_its_value() -> None:
    told = {row["Limit"]: ast.literal_eval(row["Value"]) for row in table(PAGE, "Limit")}
    known: dict[str, Any] = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert told == known
