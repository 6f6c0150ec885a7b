"""Programs that print without end, while leases are short and other work goes on."""

from functools import partial
from typing import Any

import pytest

from ledgence.models import Lease
from tests.faults.site import Site, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow]

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.attacks.settings"}


@short_lease
def test_floods_of_output_cost_no_lease_and_hold_up_no_other_work(site: Site):
    worker = site.worker(concurrency=5, **SETTINGS)
    floods = [site.submit("flood", site.gate(), timeout=None) for _ in range(4)]
    site.wait_for_starts(4)
    renewed = Lease.objects.order_by("expires_at").values_list("expires_at", flat=True)
    for _ in range(3):
        before = renewed.first()
        assert site.wait_for_end(site.submit("echo", 1)) == "succeeded"
        site.wait_until(partial(_is_later, renewed, before), "a renewal of every lease")
    site.open(site.gate())
    for task in floods:
        assert site.wait_for_end(task) == "succeeded"
        assert site.ends(task) == [(1, "succeeded")]
    assert len(task.attempts[0].report["output"]) <= 16 * 1024
    assert worker.stop() == 0


# Any: a queryset of one column, and one of its values.
def _is_later(renewed: Any, before: Any) -> bool:
    return bool(renewed.first() > before)
