"""Settings are checked before anything starts."""

import pytest

from ledgence_worker.errors import InvalidInput
from tests.worker.fakes import make_settings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("name", ""),
        ("name", "n" * 129),
        ("tenant", "é" * 65),
        ("namespace", ""),
        ("queues", ("q", "")),
        ("exclude_queues", ("",)),
        ("concurrency", 0),
        ("concurrency", 1025),
        ("grace_seconds", -1),
        ("grace_seconds", float("nan")),
        ("acquire_wait_seconds", 20.1),
        ("linger_seconds", -0.001),
        ("health_port", 65_536),
    ],
)
def test_bad_values_are_refused_by_name(setting, value):
    with pytest.raises(InvalidInput, match=setting.removeprefix("exclude_").removesuffix("s")):
        make_settings(**{setting: value})


def test_queue_cannot_be_served_and_excluded():
    with pytest.raises(InvalidInput, match=r"\['b'\] are both served and excluded"):
        make_settings(queues=("a", "b"), exclude_queues=("b", "c"))


def test_bounds_are_allowed():
    make_settings(name="n" * 128, concurrency=1024, grace_seconds=0, acquire_wait_seconds=0, health_port=0)
