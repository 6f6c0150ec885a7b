"""The checks of the demonstration: what it finds against what it computes itself."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from uuid import UUID

from django.db.models import QuerySet

from ledgence.models import Attempt, Task
from ledgence_project.demo.inspection import inspect_file


def check_results(files: Mapping[UUID, str], *, using: str) -> list[str]:
    """Compute every file again, here, and return a line for each task whose result is not that."""
    problems = []
    rows = Task.objects.using(using).filter(pk__in=files).values_list("pk", "outcome", "result")
    found = {pk: (outcome, result) for pk, outcome, result in rows}
    with ProcessPoolExecutor() as executor:
        for (task, path), wanted in zip(
            files.items(), executor.map(inspect_file, files.values(), chunksize=64), strict=True
        ):
            outcome, result = found.get(task, ("missing", None))
            if outcome != "succeeded" or result != wanted:
                problems.append(f"task {task} ({path}): {outcome or 'not finished'} with another result than computed")
    return problems


def check_starts(starts: Counter[str], attempts: QuerySet[Attempt]) -> list[str]:
    """Return a line for each attempt whose user code started twice, or that succeeded without a start."""
    problems = [f"attempt {attempt} started {count} times" for attempt, count in starts.items() if count > 1]
    for task, number in attempts.filter(outcome="succeeded").values_list("task_id", "number"):
        if not starts[f"{task}.{number}"]:
            problems.append(f"attempt {task}.{number} succeeded, and the effect log has no start of it")
    known = {f"{task}.{number}" for task, number in attempts.values_list("task_id", "number")}
    return problems + [
        f"attempt {attempt} started and is not in the ledger" for attempt in starts if attempt not in known
    ]
