"""The served description against the implementation: what it allows is taken, what it rules out is refused."""

from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode

from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.programs import RETRYABLE_OUTCOMES
from tests.http.requests import ENDPOINT, path_of
from tests.http.scene import Scene
from tests.http.servers import Server

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

#: A sample, the same one each time.
EXAMPLES = 12
PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)


def is_identifier(text: str) -> bool:
    try:
        return bool(check_identifier(text, what="it"))
    except InvalidInput:
        return False


FORMATS: dict[str, st.SearchStrategy[str]] = {
    "ledgence-identifier": PRINTABLE.filter(is_identifier),
    "ledgence-key": PRINTABLE,
    "ledgence-entry-point": PRINTABLE,
    "ledgence-message-id": PRINTABLE,
    "ledgence-reason": PRINTABLE,
    "ledgence-retry-word": st.sampled_from([*sorted(RETRYABLE_OUTCOMES), "builtins.ValueError"]),
    "ledgence-json": st.sampled_from(["null", "1.0", '{"a": [1]}']),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)


def settings() -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def schema(server: Server) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/ledgence/v1/openapi.json")


def known(case: Any, name: str, scene: Scene) -> None:
    """Let an allowed case name what is there, and say what no schema can."""
    if case.path_parameters:
        case.path_parameters["id"] = path_of(ENDPOINT[name], scene).split("/")[1]
    case.body = whole(case.body)
    if case.query and "wait_seconds" in case.query:
        case.query["wait_seconds"] = min(case.query["wait_seconds"], 0.1)
    if isinstance(case.body, dict) and "wait_seconds" in case.body:
        case.body["wait_seconds"] = min(case.body["wait_seconds"], 0.1)
    for task in case.body.get("tasks", [case.body]) if isinstance(case.body, dict) else []:
        if "backoff" in task:
            task["backoff"]["maximum_seconds"] = 31_536_000


def whole(value: Any) -> Any:
    """Write whole numbers without a fraction, as the service wants them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value


#: An address without a parameter or a body leaves nothing to rule out.
CASES = [
    *((name, GenerationMode.POSITIVE) for name in (*ENDPOINT, "openapi")),
    *((name, GenerationMode.NEGATIVE) for name, one in ENDPOINT.items() if one.query or one.body or "{id}" in one.path),
]


@pytest.mark.parametrize(("name", "mode"), CASES, ids=[f"{name}-{mode.value}" for name, mode in CASES])
def test_the_description_is_exact(name: str, mode: GenerationMode, schema: Any, server: Server, scene: Scene) -> None:
    operation = schema.find_operation_by_id(name)
    headers = {"Authorization": f"Bearer {scene.token}"}

    @settings()
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and name in ENDPOINT:
            known(case, name, scene)
        case.call_and_validate(base_url=f"{server.url}/ledgence/v1", headers=headers)

    check()
