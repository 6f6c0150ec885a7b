"""docs/programs.md says what may be said about a task, and where."""

from inspect import Parameter, signature

from ledgence import program
from ledgence.new_task import SubmitOptions
from tests.docs.reading import DOCS, table


def test_every_option_of_a_submission_and_of_a_program_stands_there() -> None:
    told: dict[str, set[str]] = {"submission": set(), "program": set()}
    for row in table(DOCS / "programs.md", "Option"):
        for place in row["Of"].split(", "):
            told[place] |= set(row["Option"].split(", "))
    keywords = {name for name, one in signature(program).parameters.items() if one.kind is Parameter.KEYWORD_ONLY}
    assert told == {"submission": set(SubmitOptions.__annotations__), "program": keywords}
