"""What is said of which facts: each code by the facts that lead to it, in the order in which they matter."""

from datetime import timedelta

import pytest

from ledgence.explanation import Code, Kind, explain_facts
from ledgence.explanation.facts import ENDINGS_MAX, EventFacts, Facts
from ledgence.status import COUNT_CAP
from tests.ledger.explanation.made import (
    NOW,
    TASK,
    active,
    ago,
    attempt,
    ended,
    external,
    facts,
    holder,
    intent,
    lease,
    publisher,
    queue,
    queued,
    running,
    session,
    task,
)


def codes(facts: Facts) -> list[str]:
    return [line.code.value for line in explain_facts(facts).lines]


def blocking(facts: Facts) -> list[str]:
    return [line.code.value for line in explain_facts(facts).lines if line.is_blocking]


def said(facts: Facts, code: Code) -> str:
    """Return what the one line of a code says, with its advice."""
    [line] = [line for line in explain_facts(facts).lines if line.code is code]
    return f"{line.text} {line.advice}".strip()


def target(facts: Facts, code: Code) -> tuple[str, str | None]:
    [line] = [line for line in explain_facts(facts).lines if line.code is code]
    assert line.target is not None
    return line.target.kind.value, line.target.id


# Terminal


def test_a_task_that_succeeded_says_when_and_in_which_attempt() -> None:
    known = ended("succeeded")
    assert codes(known) == ["succeeded"]
    assert said(known, Code.SUCCEEDED) == (
        "It succeeded 10.0 s ago, at 2026-05-04 11:59:50 UTC, in attempt 1. "
        "Nothing. To run it once more, requeue it as a copy."
    )
    assert target(known, Code.SUCCEEDED) == ("attempt", "99")


def test_a_task_that_failed_names_the_exception() -> None:
    head = '{"error": {"classes": ["shop.errors.Declined", "Exception"], "message": "n'
    known = ended("failed", attempt=attempt(number=3, outcome="failed", report_head=head))
    assert "attempt 3 failed with Declined, and no other follows" in said(known, Code.FAILED)
    lost = ended("failed", attempt=attempt(number=3, outcome="lost"))
    assert "attempt 3 lost, and no other follows" in said(lost, Code.FAILED)


KILLED = '{"error":null,"exit_status":-9,"output":"row 1","seconds":41.0}'
DECLINED = (
    '{"error":{"classes":["shop.errors.Declined","Exception"],"message":"card\\n of %s","traceback":'
    '"  File \\"/srv/shop/pay.py\\", line 31, in pay\\n    x\\n  File \\"/x/site-packages/y.py\\", line 9, in z\\n"},'
    '"exit_status":null,"output":"","seconds":1.0}'
)


def failed(*ends: tuple[str, str | None], **changes: object) -> Facts:
    """Return the facts of a task whose attempts ended so, the last one first."""
    (outcome, head), number = ends[0], len(ends)
    last = attempt(number=number, outcome=outcome, report_head=head)
    return ended("failed", **{"attempt": last, "endings": ends[:ENDINGS_MAX]} | changes)


def test_attempts_that_all_ended_alike_say_so_and_how_and_what_to_do() -> None:
    known = failed(*[("crashed", KILLED)] * 3)
    assert codes(known) == ["failed", "ended_alike", "reported"]
    assert said(known, Code.ENDED_ALIKE) == (
        "3 of 3 attempts ended the same way: crashed with exit status -9 (SIGKILL)."
    )
    assert said(known, Code.REPORTED) == (
        "Exit status -9 (SIGKILL): killed by SIGKILL; often the machine's out-of-memory killer. "
        "Look into the kernel's log (dmesg, journalctl -k) on h1. "
        "Limit or split the work, or give the machine more memory."
    )
    assert target(known, Code.REPORTED) == ("attempt", "99")


def test_attempts_that_ended_otherwise_are_not_counted_as_alike() -> None:
    killed, aborted = ("crashed", KILLED), ("crashed", KILLED.replace("-9", "-6"))
    assert codes(failed(killed)) == codes(failed(killed, aborted)) == ["failed", "reported"]
    some = failed(killed, killed, aborted)
    assert said(some, Code.ENDED_ALIKE).startswith("The last 2 of 3 attempts ended the same way: crashed")
    many = failed(*[killed] * (ENDINGS_MAX + 9))
    assert said(many, Code.ENDED_ALIKE).startswith(f"The last {ENDINGS_MAX} attempts, or more, ended the same way")


def test_an_exception_is_told_with_its_message_and_the_applications_own_place() -> None:
    known = failed(("failed", DECLINED % "ada"))
    assert "attempt 1 failed with Declined" in said(known, Code.FAILED)
    assert said(known, Code.REPORTED) == (
        "It reported Declined: card of ada, at /srv/shop/pay.py:31. "
        "Mend the program there, or remove what it fails at. The attempt has the traceback."
    )


def test_a_long_message_is_cut_after_what_hides_its_secrets() -> None:
    known = failed(("failed", DECLINED % ("pa55word" * 40)), quoted=lambda text: text.replace("pa55word", "-"))
    assert "pa55" not in said(known, Code.REPORTED)
    assert "…, at /srv/shop/pay.py:31." in said(failed(("failed", DECLINED % ("x" * 300))), Code.REPORTED)


def test_an_end_without_a_report_is_told_with_what_fits_its_outcome() -> None:
    slow = said(failed(("timed_out", KILLED)), Code.REPORTED)
    assert slow.startswith("Its program was stopped when its time-out of 5 min 0 s was over.")
    assert "Raise the program's timeout" in slow and "memory" not in slow
    assert "the worker on h1 died, hung, or was cut off" in said(failed(("lost", None)), Code.REPORTED)
    again = queued(intent=intent(generation=2, cause="interrupted"), attempt=attempt(outcome="interrupted"), ahead=None)
    assert "on h1 was stopped, and gave it back" in said(again, Code.REPORTED)
    assert codes(failed(("crashed", None))) == ["failed"]


def test_a_cancelled_task_says_when() -> None:
    assert said(ended("cancelled"), Code.CANCELLED).startswith("It was cancelled 10.0 s ago")


def test_a_task_that_is_nowhere_is_told_as_damage() -> None:
    assert blocking(facts()) == ["nowhere"]
    assert codes(ended("failed", attempt=None)) == ["nowhere"]
    assert explain_facts(facts()).state is None


# Queued


def test_a_task_that_a_worker_is_about_to_take_says_so() -> None:
    assert codes(queued()) == ["ready"]
    assert said(queued(), Code.READY).startswith("It is due for 1.0 s, and 3 slots are free for it")
    assert blocking(queued()) == []


def test_without_hints_a_ready_task_waits_for_the_poll() -> None:
    assert codes(queued(has_hints=False)) == ["ready", "hints_off"]


def test_due_work_that_nobody_takes_though_slots_are_free_is_remarkable() -> None:
    known = queued(intent=intent(available_at=ago(11)), has_hints=False)
    assert codes(known) == blocking(known) == ["untaken"]
    known = queued(intent=intent(available_at=ago(11)), old_snapshot=(4711, 90.2))
    assert codes(known) == ["untaken", "old_snapshot"]
    assert "process 4711 has held a snapshot for 1 min 30 s" in said(known, Code.OLD_SNAPSHOT)


def test_work_for_later_is_told_with_its_time_and_nothing_that_only_matters_when_due() -> None:
    known = queued(intent=intent(available_at=NOW + timedelta(hours=3, minutes=20)), ahead=None, has_hints=False)
    assert codes(known) == ["not_due"]
    assert "may start in 3 h 20 min, at 2026-05-04 15:20:00 UTC" in said(known, Code.NOT_DUE)
    assert target(known, Code.NOT_DUE) == ("intent", str(TASK))


def test_what_would_hold_work_for_later_up_is_told_before_it_is_due() -> None:
    known = queued(intent=intent(available_at=ago(-60)), ahead=None, sessions=[])
    assert blocking(known) == ["not_due", "no_session"]


def test_a_retry_tells_the_attempt_before_and_the_delay() -> None:
    known = queued(
        intent=intent(generation=2, cause="crashed", charged=1, available_at=ago(-20)), attempt=attempt(), ahead=None
    )
    assert codes(known) == ["not_due", "retry"]
    assert "attempt 1 crashed 10.0 s ago, and the next one follows after 30.0 s. 1 of 3 attempts are used up." in said(
        known, Code.RETRY
    )
    assert target(known, Code.RETRY) == ("attempt", "99")


def test_a_requeued_task_tells_after_what() -> None:
    known = queued(intent=intent(generation=2, cause="requeued"), attempt=attempt(outcome="failed"))
    assert codes(known) == ["requeued", "ready"]
    assert "after attempt 1 failed, 10.0 s ago" in said(known, Code.REQUEUED)


def test_a_paused_queue_tells_by_whom_since_when_and_why() -> None:
    known = queued(queue=queue(paused_at=ago(7200), paused_by="ada", pause_reason="mail server moves"))
    assert codes(known) == blocking(known) == ["paused"]
    assert "by ada 2 h 0 min ago, at 2026-05-04 10:00:00 UTC, because “mail server moves”" in said(known, Code.PAUSED)
    assert target(known, Code.PAUSED) == ("queue", "7")


def test_a_pause_with_an_end_tells_it() -> None:
    def paused(seconds: float) -> str:
        own = queue(paused_at=ago(60), paused_until=ago(seconds), paused_by="ada", pause_reason="why")
        return said(queued(queue=own), Code.PAUSED)

    assert "Housekeeping resumes it in 10 min 0 s, at 2026-05-04 12:10:00 UTC" in paused(-600)
    assert "Its pause is over since 5.0 s: see that housekeeping runs" in paused(5)


def test_workers_that_drain_take_nothing() -> None:
    draining = session(drain_requested_at=ago(5))
    assert blocking(queued(sessions=[draining, draining])) == ["all_draining"]
    assert blocking(queued(sessions=[draining, session(heard_seconds=45.0)])) == ["all_draining"]
    assert codes(queued(sessions=[draining, session()])) == ["ready"]
    assert said(queued(sessions=[draining, session()]), Code.READY).startswith("It is due for 1.0 s, and 3 slots")


def test_no_session_and_none_for_the_queue_are_told_apart() -> None:
    nobody = said(queued(sessions=[]), Code.NO_SESSION)
    assert nobody.startswith("No worker session is open that could serve queue mail.")
    assert "manage.py ledgence_worker --queue mail" in nobody
    others = said(queued(sessions=[session(serves=False), session(serves=False)]), Code.NO_SESSION)
    assert others.startswith("2 worker sessions are open, and none serves queue mail.")
    assert target(queued(sessions=[]), Code.NO_SESSION) == ("session", None)


def test_a_missing_version_is_told_with_those_that_are_there() -> None:
    known = queued(sessions=[session(versions=("0.9",)), session(versions=()), session(serves=False)])
    assert blocking(known) == ["no_program"]
    assert said(known, Code.NO_PROGRAM).startswith(
        "2 worker sessions serve queue mail, and none has program shop.send 1. Of this program they have: 0.9."
    )


def test_silent_workers_are_named() -> None:
    known = queued(sessions=[session(heard_seconds=45.0), session(serves=False)])
    assert blocking(known) == ["all_silent"]
    assert "1 worker session could run it and is silent: w1 (h1:11), last heard of 45.0 s ago." in said(
        known, Code.ALL_SILENT
    )
    assert codes(queued(sessions=[session(heard_seconds=45.0), session()])) == ["ready"]


def test_busy_slots_are_told_with_what_they_run() -> None:
    full = session(running=("shop.report 2", "shop.report 2", "shop.send 1", "shop.report 2"))
    known = queued(sessions=[full, full, session(heard_seconds=100.0)])
    assert blocking(known) == ["all_busy"]
    assert said(known, Code.ALL_BUSY).startswith(
        "All 8 slots of the 2 worker sessions that could run it are busy: 6 × shop.report 2, 2 × shop.send 1."
    )


def test_work_ahead_is_counted_up_to_the_cap() -> None:
    assert codes(queued(ahead=3)) == ["ahead"]
    assert blocking(queued(ahead=3)) == []
    assert said(queued(ahead=1), Code.AHEAD).startswith("1 due task of queue mail comes before it")
    assert said(queued(ahead=COUNT_CAP), Code.AHEAD).startswith("1000 due tasks")
    assert said(queued(ahead=COUNT_CAP + 1), Code.AHEAD).startswith("1,000+ due tasks of queue mail come before it")


def test_several_causes_come_in_the_order_in_which_they_matter() -> None:
    known = queued(
        queue=external(paused_at=ago(5), paused_by="a", pause_reason="b"),
        intent=intent(cause="lost", generation=2, charged=1, available_at=ago(-5), next_publish_at=ago(-5)),
        attempt=attempt(outcome="lost"),
        sessions=[],
        ahead=3,
    )
    assert codes(known) == ["not_due", "retry", "reported", "paused", "no_session", "no_publisher"]


# Queued in an external queue


def announced(**changes: object) -> Facts:
    """Return the facts of a task whose announcement the broker has."""
    own = {
        "publications": 1,
        "first_published_at": ago(20),
        "last_published_at": ago(20),
        "confirmed_at": ago(20),
        "next_publish_at": ago(-40),
    }
    return queued(queue=external(), intent=intent(**own | changes), publisher=publisher())


def test_announced_work_waits_for_a_worker_that_receives_it() -> None:
    assert codes(announced()) == ["announced"]
    assert blocking(announced()) == []
    told = said(announced(), Code.ANNOUNCED)
    assert told.startswith("It was announced 20.0 s ago, the broker has it, and no worker has claimed it;")
    assert "it is sent next in 40.0 s" in told
    assert "receives from arn:mail" in told
    often = said(announced(publications=4, first_published_at=ago(600)), Code.ANNOUNCED)
    assert "announced 4 times, first 10 min 0 s and last 20.0 s ago" in often
    assert "due to be sent for 5.0 s" in said(announced(next_publish_at=ago(5)), Code.ANNOUNCED)


def test_a_broker_has_no_order_so_nothing_is_ahead() -> None:
    assert codes(facts(**_fields(announced()) | {"ahead": 3, "publisher": publisher()})) == ["announced"]


def test_without_a_publisher_work_that_the_broker_has_may_still_be_received() -> None:
    known = announced()
    for last in (None, publisher(turned_seconds=61.0)):
        one = facts(**_fields(known) | {"publisher": last})
        assert codes(one) == ["no_publisher", "announced"]
        assert blocking(one) == []
    assert "the last one, on p1, turned 1 min 1 s ago" in said(one, Code.NO_PUBLISHER)
    assert target(one, Code.NO_PUBLISHER) == ("publisher", None)


def _fields(known: Facts) -> dict[str, object]:
    return {name: getattr(known, name) for name in ("task", "queue", "intent", "sessions", "ahead")}


def unsent(**changes: object) -> Facts:
    own = intent(**{"next_publish_at": ago(3)} | changes)
    return queued(queue=external(), intent=own, publisher=publisher())


def test_work_that_is_not_announced_yet_says_since_when_it_should_be() -> None:
    assert blocking(unsent()) == ["unannounced"]
    assert "it is due to be sent for 3.0 s" in said(unsent(), Code.UNANNOUNCED)
    assert "never to be announced" in said(unsent(next_publish_at=None), Code.UNANNOUNCED)
    nobody = facts(**_fields(unsent()) | {"publisher": None})
    assert blocking(nobody) == ["no_publisher", "unannounced"]


def test_work_that_a_publisher_holds_is_being_sent_unless_that_is_gone() -> None:
    held = unsent(is_held=True, next_publish_at=ago(-20), publications=1)
    assert (codes(held), blocking(held)) == (["being_sent"], [])
    assert blocking(unsent(is_held=True, next_publish_at=ago(1), publications=1)) == ["being_sent"]


def test_a_refusal_is_told_with_the_brokers_reason_and_the_next_try() -> None:
    event = EventFacts(kind="refused", happened_at=ago(9), detail='{"reason": "too large"}')
    own = unsent(refusals=3, publications=3, next_publish_at=ago(-8))
    known = facts(**_fields(own) | {"publisher": publisher(), "event": event})
    assert blocking(known) == ["refused"]
    assert said(known, Code.REFUSED).startswith(
        "The broker has refused it 3 times in a row (too large); it is sent next in 8.0 s."
    )


@pytest.mark.parametrize("detail", [None, "", "[]", "{}", '{"reason": ', '{"reason": null}', "7"])
def test_an_event_without_a_reason_is_told_without(detail: str | None) -> None:
    event = EventFacts(kind="failed", happened_at=ago(9), detail=detail)
    own = unsent(publications=1, next_publish_at=ago(-2))
    known = facts(**_fields(own) | {"publisher": publisher(), "event": event})
    assert blocking(known) == ["unconfirmed"]
    assert "and the broker did not confirm it; it is sent next in 2.0 s." in said(known, Code.UNCONFIRMED)


@pytest.mark.parametrize("kind", ["republish", "moved", "deferred", "repair"])
def test_a_publication_that_was_not_sent_yet_is_not_blamed_on_the_broker(kind: str) -> None:
    event = EventFacts(kind=kind, happened_at=ago(9), detail=None)
    own = unsent(publications=2, epoch=3)
    known = facts(**_fields(own) | {"publisher": publisher(), "event": event})
    assert "It is to be announced anew; it is due to be sent for 3.0 s." in said(known, Code.UNANNOUNCED)


def test_a_failing_publisher_is_told_with_what_fails() -> None:
    known = facts(**_fields(unsent()) | {"publisher": publisher(failure="connection refused")})
    assert blocking(known) == ["publisher_fails", "unannounced"]
    assert "on p1 fails: connection refused" in said(known, Code.PUBLISHER_FAILS)


def test_work_that_a_worker_could_not_run_says_so() -> None:
    event = EventFacts(kind="deferred", happened_at=ago(2), detail='{"reason": "the worker does not know it"}')
    known = facts(**_fields(unsent()) | {"publisher": publisher(), "event": event})
    assert codes(known) == ["unannounced", "deferred"]
    assert "2.0 s ago and could not run it (the worker does not know it)" in said(known, Code.DEFERRED)


def test_nothing_is_said_of_the_announcement_of_work_that_is_not_to_be_sent() -> None:
    paused = facts(
        **_fields(unsent())
        | {"queue": external(paused_at=ago(1), paused_by="a", pause_reason="b"), "publisher": publisher()}
    )
    assert codes(paused) == ["paused"]
    later = queued(
        queue=external(),
        intent=intent(available_at=ago(-9), next_publish_at=ago(-9)),
        publisher=publisher(),
        ahead=None,
    )
    assert codes(later) == ["not_due"]


# Active


def test_a_running_task_says_who_runs_it_since_and_until_when() -> None:
    assert codes(active()) == ["held", "lease_live", "time_out"]
    assert blocking(active()) == []
    told = said(active(), Code.HELD)
    assert told == "Attempt 1 is held by worker w1 (h1:11) for 30.0 s, since 2026-05-04 11:59:30 UTC."
    assert "expires in 50.0 s, unless it is renewed; it was granted or last renewed 10.0 s ago." in said(
        active(), Code.LEASE_LIVE
    )
    assert "time-out of 5 min 0 s is over, in 4 min 30 s" in said(active(), Code.TIME_OUT)
    assert target(active(), Code.LEASE_LIVE) == ("lease", str(TASK))


def test_the_last_renewal_is_not_guessed_where_a_bound_ends_the_lease() -> None:
    known = active(lease=lease(bound_at=ago(-50)))
    assert said(known, Code.LEASE_LIVE) == "Its lease expires in 50.0 s, unless it is renewed."
    # Granted by a process with a longer lease than this one's.
    assert "last renewed" not in said(active(lease_seconds=40.0), Code.LEASE_LIVE)


def test_a_lease_that_is_not_renewed_in_time_is_told_before_it_is_over() -> None:
    known = active(lease=lease(expires_at=ago(-29)))
    assert codes(known) == ["held", "not_renewed", "time_out"]
    assert "last renewed 31.0 s ago" in said(known, Code.NOT_RENEWED)


def test_a_lease_that_is_over_says_whether_housekeeping_ends_it() -> None:
    over = lease(expires_at=ago(3))
    known = active(lease=over)
    assert codes(known) == ["lease_expired", "held", "time_out"]
    assert blocking(known) == ["lease_expired"]
    assert "over for 3.0 s" in said(known, Code.LEASE_EXPIRED)
    assert "Housekeeping turned 4.0 s ago" in said(known, Code.LEASE_EXPIRED)
    assert blocking(active(lease=lease(expires_at=NOW))) == ["lease_expired"]


def test_where_no_process_does_the_housekeeping_that_is_told() -> None:
    over = lease(expires_at=ago(3))
    known = active(lease=over, housekeeping_seconds=600.0)
    assert blocking(known) == ["lease_expired", "no_housekeeping"]
    assert said(known, Code.NO_HOUSEKEEPING) == (
        "No process does the housekeeping that ends expired leases: the last one did it 10 min 0 s ago. "
        "Start manage.py ledgence_recover, or a worker beside the database."
    )
    assert "none ever has on this database" in said(active(lease=over, housekeeping_seconds=None), Code.NO_HOUSEKEEPING)


def test_a_worker_that_is_gone_is_told() -> None:
    silent = active(holder=holder(extended_at=ago(31)))
    assert blocking(silent) == ["holder_silent"]
    assert "last heard of 31.0 s ago" in said(silent, Code.HOLDER_SILENT)
    for gone in (holder(closed_at=ago(5)), holder(expires_at=ago(5))):
        assert blocking(active(holder=gone)) == ["holder_ended"]
    assert codes(active(holder=holder(extended_at=None))) == codes(active())


def test_what_to_do_about_a_silent_worker_follows_whether_its_lease_is_over() -> None:
    silent = holder(extended_at=ago(90))
    live = said(active(holder=silent), Code.HOLDER_SILENT)
    assert "Its lease expires in 50.0 s, if it is not renewed; force it to expire if you cannot wait." in live
    over = said(active(holder=silent, lease=lease(expires_at=ago(3))), Code.HOLDER_SILENT)
    assert "expire" not in over
    for told in (live, over):
        assert "manage.py ledgence_worker --queue mail, or, without the database, ledgence-worker connect" in told


def test_an_attempt_that_may_not_start_yet_says_so() -> None:
    known = active(attempt=running(authorized_at=None))
    assert codes(known) == ["held", "unauthorized", "lease_live"]


def test_a_cancel_request_takes_the_place_of_the_time_out() -> None:
    known = active(lease=lease(cancel_requested_at=ago(2), bound_at=ago(-28)))
    assert codes(known) == ["held", "lease_live", "cancel_requested"]
    assert "asked to stop 2.0 s ago" in said(known, Code.CANCEL_REQUESTED)
    assert "in 28.0 s at the latest" in said(known, Code.CANCEL_REQUESTED)


def test_a_task_without_time_out_says_nothing_of_one_and_one_that_is_over_says_that() -> None:
    assert codes(active(task=task(timeout_seconds=None))) == ["held", "lease_live"]
    assert "has been over for 10.0 s" in said(active(attempt=running(authorized_at=ago(310))), Code.TIME_OUT)


# All of them


def test_every_line_is_a_sentence_and_every_block_says_what_to_do() -> None:
    every = [
        *(ended(outcome) for outcome in ("succeeded", "failed", "cancelled")),
        facts(),
        queued(),
        queued(sessions=[]),
        announced(),
        unsent(),
        active(),
        active(lease=lease(expires_at=ago(3)), housekeeping_seconds=None),
    ]
    for explanation in map(explain_facts, every):
        assert explanation.lines
        for line in explanation.lines:
            assert line.text[0].isupper() and line.text.endswith(".")
            assert not line.is_blocking or line.advice.endswith((".", "?"))
            assert "%(" not in line.text + line.advice
            assert line.target is None or line.target.kind in Kind
