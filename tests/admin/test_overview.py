"""The overview: what needs attention and where it leads, what was done, what fails; to each what they may see."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ledgence.admin import overview as module
from ledgence.admin.attention import Card
from ledgence.admin.charts import HEIGHT, WIDTH, draw, on_log_scale, quantile, round_up
from ledgence.admin.overview import find_overview
from ledgence.models import HousekeepingTurn, Queue, Rollup
from ledgence.models.rollup import WAIT_BOUNDS
from ledgence.operations.queues import pause
from ledgence_worker.protocol import Outcome
from tests.admin.conftest import VIEWED, Ledger, make_client
from tests.admin.test_pages import fall_silent, page_of, shown
from tests.ledger.actors import USING, Worker, execute, expire_leases, make_due, operator, raised, submit_tasks

INDEX = "/admin/ledgence/"
FRAGMENT = "/admin/ledgence/queue/overview/"


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_shared", {})


def alarms() -> dict[str, str]:
    """Return the values of the cards that need attention, by label."""
    return {card.label: card.value for card in find_overview().cards if card.is_alarm}


def card_of(label: str) -> Card:
    [card] = [card for card in find_overview().cards if card.label == label]
    return card


def keep_house() -> None:
    HousekeepingTurn.objects.update_or_create(pk=1, defaults={"turned_at": timezone.now()})


def roll_up(queue: Queue, minutes_ago: float, **counts: int) -> None:
    waits = [0] * (len(WAIT_BOUNDS) + 1)
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    Rollup.objects.create(queue=queue, minute=at, waits="{" + ",".join(map(str, waits)) + "}", **counts)


@pytest.mark.django_db
class TestAttention:
    def test_a_quiet_ledger_raises_no_alarm(self, db: None) -> None:
        assert alarms() == {}

    def test_each_trouble_has_its_card(self, ledger: Ledger) -> None:
        assert alarms() == {"task failed in the last hour": "1", "message quarantined today": "1"}
        expire_leases()
        assert alarms()["expired lease"] == "1"
        fall_silent(ledger)
        assert alarms()["silent worker"] == "1"
        execute("update ledgence_deliveryintent set available_at = now() - interval '2 h'")
        told = alarms()
        assert told["stuck intents"] == "2"
        assert told["wait of the oldest due work, without paused queues"] == "2 h 0 min"
        assert told["program without a worker"] == "1"
        pause([ledger.queue.pk], operator(), using=USING)
        told = alarms()
        assert told["paused queue"] == "1"
        assert "wait of the oldest due work, without paused queues" not in told
        execute("update ledgence_queue set mode = 'external', destination = 'x'")
        assert "queue without a publisher" not in alarms()
        execute("update ledgence_publisher set turned_at = now() - interval '61 s'")
        assert alarms()["queue without a publisher"] == "1"

    def test_old_failures_are_no_alarm(self, ledger: Ledger) -> None:
        execute("update ledgence_task set finished_at = now() - interval '61 min' where outcome = 'failed'")
        assert "task failed in the last hour" not in alarms()

    def test_expired_leases_tell_whether_anybody_ends_them(self, ledger: Ledger, op: Client) -> None:
        expire_leases()
        assert "No process does the housekeeping" in shown(op, INDEX)
        keep_house()
        assert "No process does the housekeeping" not in shown(op, INDEX)

    def test_every_card_leads_to_a_page_that_shows_its_rows(self, ledger: Ledger, op: Client) -> None:
        for card in find_overview().cards:
            assert op.get(card.address).status_code == 200, card
        expire_leases()
        [card] = [card for card in find_overview().cards if card.label == "expired lease"]
        assert [lease.pk for lease in op.get(card.address).context["cl"].result_list] == [ledger.active]

    def test_storms_are_told_with_what_they_die_of(self, ledger: Ledger, op: Client) -> None:
        submit_tasks(3, max_attempts=9, retry_on=["failed"])
        worker = Worker()
        for assignment in worker.acquire(3):
            worker.settle(assignment, Outcome.FAILED, error=raised("shop.Refused"))
        roll_up(ledger.queue, 30, claimed=100, retried=10)
        roll_up(ledger.queue, 3, claimed=100, retried=19)
        assert find_overview().storms == []
        roll_up(ledger.queue, 3, retried=1)
        [storm] = find_overview().storms
        assert (storm.line.queue.name, storm.a_minute, len(storm.trouble)) == ("default", 2.0, 1)
        page = shown(op, INDEX)
        [example] = storm.trouble
        assert f'<a href="{page_of("task", "change", example.task)}">tests.work: Refused</a>' in page
        card = card_of("retry storm")
        assert (card.value, card.address) == ("1", page_of("task", "change", example.task))
        assert "Pause it" in card.hint
        pause([ledger.queue.pk], operator(), using=USING)
        assert "paused now" in card_of("retry storm").hint

    def test_what_is_tried_again_stands_among_the_errors(self, ledger: Ledger, op: Client) -> None:
        submit_tasks(2, max_attempts=9, retry_on=["failed"], priority=90)
        worker = Worker()
        for assignment in worker.acquire(2):
            worker.settle(assignment, Outcome.FAILED, error=raised("shop.Refused"))
        told = {one.error: (one.failed, one.retried) for one in find_overview().errors}
        assert told == {"Refused": (0, 2), "ValueError": (1, 0)}
        page = shown(op, INDEX)
        assert re.search(r'<a href="/admin/ledgence/task/[0-9a-f-]{36}/change/">Refused</a>', page)

    def test_failures_are_an_alarm_when_they_are_new_or_more_than_before(self, ledger: Ledger) -> None:
        label = "task failed in the last hour"
        assert card_of(label).hint.startswith("New: ValueError (tests.work). In the hour before: 0.")
        assert card_of(label).address == page_of("task", "change", ledger.failed)
        old = submit_tasks(2, max_attempts=1, priority=90)
        worker = Worker()
        for assignment in worker.acquire(2):
            worker.settle(assignment, Outcome.FAILED, error=raised("builtins.ValueError"))
        before = "finished_at - interval '80 min'"
        for table, key in (("task", "id"), ("attempt", "task_id")):
            execute(f"update ledgence_{table} set finished_at = {before} where {key} = any(%s)", [old])  # noqa: S608
        assert label not in alarms()
        execute("update ledgence_task set finished_at = now() - interval '3 h' where id = any(%s)", [old])
        assert card_of(label).hint == "In the hour before: 0. See below why."
        assert label in alarms()

    def test_a_paused_queue_tells_by_whom_and_why(self, ledger: Ledger) -> None:
        pause([ledger.queue.pk], operator("the disk is full"), using=USING)
        card = card_of("paused queue")
        paused = Queue.objects.get(pk=ledger.queue.pk)
        assert f"default, by {paused.paused_by} since " in card.hint
        assert "“the disk is full”" in card.hint
        assert card.address == page_of("queue", "change", ledger.queue.pk)

    def test_what_needs_attention_comes_first(self, ledger: Ledger, op: Client) -> None:
        pause([ledger.queue.pk], operator(), using=USING)
        cards = op.get(INDEX).content.decode().split('<li class="ledgence-card')[1:]
        are_alarms = [card.startswith(" ledgence-alarm") for card in cards]
        assert are_alarms == sorted(are_alarms, reverse=True)
        assert any(are_alarms)
        assert not all(are_alarms)

    def test_many_retries_that_are_usual_are_no_storm_unless_they_are_half_of_everything(self, ledger: Ledger) -> None:
        for minutes_ago in range(15, 115):
            roll_up(ledger.queue, minutes_ago, claimed=100, retried=10)
        roll_up(ledger.queue, 3, claimed=1000, retried=100)
        assert find_overview().storms == []
        roll_up(ledger.queue, 3, retried=400)
        assert len(find_overview().storms) == 1


@pytest.mark.django_db
class TestPage:
    def test_it_is_the_index_of_the_app(self, ledger: Ledger, op: Client) -> None:
        page = shown(op, INDEX)
        assert reverse("admin:app_list", args=["ledgence"]) == INDEX
        assert "ValueError" in page
        for model in VIEWED:
            assert f'href="{page_of(model)}"' in page

    def test_it_takes_at_most_a_dozen_statements(self, ledger: Ledger, op: Client) -> None:
        submit_tasks(3)
        for number in range(10):
            submit_tasks(1, queue=f"queue-{number}")
        shown(op, INDEX)
        with CaptureQueriesContext(connection) as captured:
            shown(op, INDEX)
        assert len(captured) <= 12, [query["sql"][:100] for query in captured]

    @pytest.mark.parametrize(
        ("model", "shows"),
        [
            ("queue", ["Ended attempts a minute", "Queues</h2>", "wait of the oldest due work"]),
            ("task", ["Why tasks fail", "failed in the last hour"]),
            ("operatoraction", ["What operators did", "fixed the data"]),
            ("lease", ["expired leases"]),
            ("queue", ["queues without a publisher"]),
            ("quarantinedmessage", ["quarantined today"]),
        ],
    )
    def test_everybody_sees_what_they_may(self, model: str, shows: list[str], ledger: Ledger) -> None:
        page = shown(make_client(f"view_{model}"), INDEX)
        others = shown(make_client(*(f"view_{one}" for one in VIEWED if one != model)), INDEX)
        for text in shows:
            assert text in page and text not in others, text

    def test_who_may_see_nothing_has_no_index(self, ledger: Ledger, staff: Callable[..., Client]) -> None:
        assert staff().get(INDEX).status_code in (403, 404)
        fragment = staff().get(FRAGMENT).content.decode()
        assert "ledgence-card " not in fragment and "ValueError" not in fragment and "<table" not in fragment

    def test_text_from_elsewhere_is_inert(self, ledger: Ledger, op: Client) -> None:
        script = "<script>alert(1)</script>"
        execute("update ledgence_queue set name = %s", [script])
        execute("update ledgence_program set name = %s", [script])
        execute("update ledgence_operatoraction set reason = %s, actor_name = %s", [script, script])
        execute("update ledgence_attempt set report = %s", ['{"error":{"classes":["x.<script>alert(1)</script>"]}}'])
        make_due()
        for page in (INDEX, FRAGMENT):
            assert script not in shown(op, page)

    def test_the_charts_reach_back_as_far_as_the_address_says(self, ledger: Ledger, op: Client) -> None:
        roll_up(ledger.queue, 60 * 20, succeeded=700)
        assert "<td>700</td>" not in shown(op, INDEX)
        assert "<td>47</td>" in shown(op, f"{INDEX}?window=24h")
        assert shown(op, f"{INDEX}?window=for+ever").count("<strong>2 hours</strong>") == 1


@pytest.mark.django_db
class TestFragment:
    def test_what_has_not_changed_is_not_sent_again(self, ledger: Ledger, op: Client) -> None:
        # What is due would be older with each second.
        execute("update ledgence_deliveryintent set available_at = now() + interval '1 h'")
        [etag] = re.findall(r'data-etag="(?:&quot;|\")?([^&"]+)', shown(op, INDEX))
        response = op.get(FRAGMENT, headers={"If-None-Match": f'"{etag}"'})
        assert (response.status_code, response.content) == (304, b"")
        changed = op.get(FRAGMENT, headers={"If-None-Match": '"another"'})
        assert (changed.status_code, changed["ETag"]) == (200, f'"{etag}"')
        assert changed.content.decode() in shown(op, INDEX)

    def test_many_viewers_cost_one_look(self, ledger: Ledger, op: Client, viewer: Client) -> None:
        shown(op, FRAGMENT)
        with CaptureQueriesContext(connection) as captured:
            shown(viewer, FRAGMENT)
        # Whoever asks is looked up, and what they may see.
        assert len(captured) <= 4

    def test_it_is_looked_at_again_after_a_while(self, ledger: Ledger, op: Client, monkeypatch) -> None:
        shown(op, FRAGMENT)
        pause([ledger.queue.pk], operator(), using=USING)
        assert "paused queue<" not in shown(op, FRAGMENT)
        monkeypatch.setattr(module, "SHARED_SECONDS", -1.0)
        assert "paused queue<" in shown(op, FRAGMENT)

    def test_whoever_is_signed_out_is_led_away(self, ledger: Ledger, client: Client) -> None:
        assert client.get(FRAGMENT).status_code == 302


class TestCharts:
    def test_a_line_goes_over_the_whole_width_and_height(self) -> None:
        assert draw([0, 5, 10], 10) == f"M0.0 {HEIGHT - 1}.0L{WIDTH / 2} {HEIGHT / 2}L{WIDTH}.0 1.0"

    def test_a_line_is_broken_where_nothing_is_known(self) -> None:
        assert draw([None, 1, None, 1, 1, None], 1).count("M") == 2
        assert "h2" in draw([None, 1, None], 1)
        assert draw([], 1) == draw([1], 1) == draw([None, None], 1) == ""

    @pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (1.1, 2), (3, 3), (7, 8), (9, 10), (101, 200)])
    def test_an_axis_ends_at_a_round_number(self, value: float, top: float) -> None:
        assert round_up(value) == top

    def test_quantiles_are_bounds_of_the_counted_waits(self) -> None:
        counts = [0] * (len(WAIT_BOUNDS) + 1)
        assert quantile(counts, 0.5) is None
        counts[0], counts[4], counts[-1] = 90, 6, 4
        assert quantile(counts, 0.5) == WAIT_BOUNDS[0]
        assert quantile(counts, 0.95) == WAIT_BOUNDS[4]
        assert quantile(counts, 1.0) == 3 * WAIT_BOUNDS[-1]

    def test_waits_lie_on_a_scale_of_powers(self) -> None:
        assert on_log_scale(None) is None
        assert on_log_scale(WAIT_BOUNDS[0]) == on_log_scale(0.001) == 0
        assert on_log_scale(3 * WAIT_BOUNDS[-1]) == 1
        assert 0.4 < (on_log_scale(17.3) or 0) < 0.6
