"""The largest results that are allowed, from every process of a worker at once."""

import pytest

from tests.faults.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

ATTACK = {"DJANGO_SETTINGS_MODULE": "tests.attacks.settings"}
COUNT = 12


def test_large_results_that_come_together_are_all_settled(site: Site):
    worker = site.worker(concurrency=COUNT, **ATTACK)
    tasks = [site.submit("return-quotes", site.gate(), timeout=None) for _ in range(COUNT)]
    site.wait_for_starts(COUNT)
    site.open(site.gate())
    for task in tasks:
        site.wait_for_end(task)
        assert site.ends(task) == [(1, "succeeded")]
    assert "not available" not in worker.output
    assert worker.stop() == 0
