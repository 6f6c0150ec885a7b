"""A checkout of the tests' own, with an embedded database that goes away with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgence_project.embedded import remove


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder that stands for a checkout. Its server is created on first use, once for a test module."""
    folder = tmp_path_factory.mktemp("checkout")
    yield folder
    remove(folder)
