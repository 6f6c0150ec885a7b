"""Problems: each error that leaves its process has one code, and only a reply that is ours is taken for it."""

import pytest

from ledgence_worker import errors
from ledgence_worker.errors import LedgenceError, Unavailable
from ledgence_worker.problems import PROBLEMS, Problem, error_of, problem_of

#: Errors of the execution side alone.
OWN = {
    "InvalidResult",
    "ProtocolError",
    "BootstrapFailed",
    "LauncherLost",
    "TaskFailed",
    "NotFinished",
    "BrokerUnavailable",
    "BrokerRefused",
}
ALL = {
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, LedgenceError) and kind is not LedgenceError
}


def test_every_error_of_the_task_service_has_a_problem() -> None:
    assert {kind.__name__ for kind in ALL} - {problem.error.__name__ for problem in PROBLEMS} <= OWN


def test_codes_and_classes_stand_once() -> None:
    assert len({problem.code for problem in PROBLEMS}) == len({problem.error for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.code)
def test_an_error_comes_back_as_what_it_was(problem: Problem) -> None:
    assert problem_of(problem.error("why")) is problem
    for status in (problem.status, *problem.also):
        error = error_of(status, {"code": problem.code, "detail": "why", "title": problem.title})
        assert (type(error), str(error)) == (problem.error, "why")


@pytest.mark.parametrize("error", [ZeroDivisionError(), LedgenceError("of nobody")], ids=ascii)
def test_an_error_of_another_kind_has_no_problem(error: Exception) -> None:
    assert problem_of(error) is None


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.code)
def test_a_code_with_a_status_that_is_not_its_own_is_in_doubt(problem: Problem) -> None:
    for status in {200, 302, 500, 502} | {other.status for other in PROBLEMS} - {problem.status, *problem.also}:
        assert type(error_of(status, {"code": problem.code, "detail": "why"})) is Unavailable


@pytest.mark.parametrize(
    "document",
    [
        None,
        "busy",
        [],
        {},
        {"code": "busy"},
        {"code": "busy", "detail": 1},
        {"code": ["busy"], "detail": "why"},
        {"code": "of nobody", "detail": "why"},
        {"detail": "why"},
    ],
    ids=ascii,
)
def test_a_reply_that_is_not_ours_is_in_doubt(document: object) -> None:
    assert type(error_of(429, document)) is Unavailable
