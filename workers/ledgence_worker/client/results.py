"""What a task's end is to its caller: the value that the program returned, or an error."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from ledgence_worker.bodies import TaskResult
from ledgence_worker.client.call import expect, read_as
from ledgence_worker.errors import NotFinished, TaskFailed
from ledgence_worker.http_connection import Answer
from ledgence_worker.programs import UNSET

_BLANKS: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


def read_result(task_id: UUID, *, raw: bool) -> Callable[[Answer], TaskResult]:
    """Return what reads a task's result: as a value, or as the JSON text that is stored."""

    def read(answer: Answer) -> TaskResult:
        task = read_as(TaskResult)(answer)
        expect(task.id == task_id, f"task {task_id}")
        expect((task.state == "succeeded") == (task.result is not UNSET), "a result exactly if it succeeded")
        if raw and task.state == "succeeded":
            return replace(task, result=member_text(answer.body.decode(), "result"))
        return task

    return read


# Any: whatever JSON the program returned.
def value_of(task: TaskResult) -> Any:
    """Return the result of a task that has succeeded. Raises TaskFailed, NotFinished."""
    if task.state == "succeeded":
        return task.result
    if task.state in ("failed", "cancelled"):
        raise TaskFailed(task.id, task.state, "." if task.error is None else f": {task.error}")
    raise NotFinished(f"Task {task.id} is not finished; wait() for it.")


def member_text(document: str, name: str) -> str:
    """Return the text of one member of a valid JSON object, as it stands there: decoding it may change numbers."""
    place = _skip(document, document.index("{") + 1)
    while document[place] != "}":
        key, place = _DECODER.raw_decode(document, place)
        start = _skip(document, _skip(document, place) + 1)
        _, end = _DECODER.raw_decode(document, start)
        if key == name:
            return document[start:end]
        place = _skip(document, end)
        if document[place] == ",":
            place = _skip(document, place + 1)
    raise KeyError(name)


def _skip(document: str, place: int) -> int:
    while document[place] in _BLANKS:
        place += 1
    return place
