"""Submission: a task and its intent in the caller's transaction, both or neither, once per idempotency key."""

import json
import math
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from ledgence.api import submit, submit_many
from ledgence.models import DeliveryIntent, Policy, Program, Queue, Task
from ledgence.new_task import NewTask, SubmitOptions
from ledgence.operations import submit as submit_module
from ledgence.operations.submit import BATCH, make_ids
from ledgence_worker import limits
from ledgence_worker.errors import Busy, Conflict, InvalidInput
from ledgence_worker.programs import ATTEMPTS_MAX, Backoff, Defaults
from ledgence_worker.programs import Program as RegisteredProgram
from tests.ledger.actors import PROGRAM, VERSION, Worker, assert_audit_clean, execute, submit_task, submit_tasks
from tests.ledger.frozen import FrozenClock
from tests.ledger.rivals import Rival


def send(data=None, **options):
    return submit(PROGRAM, data, **{"version": VERSION} | options)


def registered(entry_point="tests.programs:work", **defaults):
    """Return a program as the decorator makes it, without registering it in this process."""
    made = RegisteredProgram(lambda event: None, name=PROGRAM, version=VERSION, defaults=Defaults(**defaults))
    made.entry_point = entry_point
    return made


def data_of(task):
    return execute("select data::text from ledgence_task where id = %s", [task])[0][0]


class Undo(Exception):
    pass


@pytest.fixture
def nothing_is_written(db):
    yield
    assert not Task.objects.exists()
    assert not DeliveryIntent.objects.exists()
    assert not Queue.objects.exists()


# Both or neither


def test_a_task_and_its_intent_are_written(clock: FrozenClock):
    handle = send({"n": 1}, priority=5, correlation_key="order 7", traceparent="00-a-b-01", queue="q")
    task = Task.objects.get()
    assert handle.is_new and handle.id == task.pk
    assert (task.tenant, task.namespace, task.queue.name, task.priority) == ("default", "default", "q", 5)
    assert (task.correlation_key, task.traceparent, task.submitted_at) == ("order 7", "00-a-b-01", clock.now)
    assert (task.revision, task.digest, task.idempotency_key) == (0, None, None)
    intent = DeliveryIntent.objects.get()
    assert (intent.generation, intent.cause, intent.charged, intent.available_at) == (1, "submitted", 0, clock.now)
    assert_audit_clean()


def test_ids_are_version_7_and_ascend_within_a_call():
    ids = make_ids(10_000)
    assert ids == sorted(set(ids))
    assert {made.version for made in ids} == {7} and {made.variant for made in ids} == {"specified in RFC 4122"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_rolled_back_transaction_or_savepoint_leaves_nothing(key, depth):
    with transaction.atomic():
        try:
            with transaction.atomic():
                if depth == 1:
                    send(idempotency_key=key)
                else:
                    with transaction.atomic():
                        send(idempotency_key=key)
                raise Undo
        except Undo:
            pass
        kept = send(queue="kept", idempotency_key=key)
        assert kept.is_new
    assert list(Task.objects.values_list("pk", flat=True)) == [kept.id]
    assert list(DeliveryIntent.objects.values_list("pk", flat=True)) == [kept.id]
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_nobody_sees_it_before_the_commit():
    worker = Worker()
    with Rival() as rival, rival.transaction():
        rival.do(submit_task)
        assert worker.acquire(1) == []
    assert len(worker.acquire(1)) == 1


def test_many_are_all_or_none(db):
    with pytest.raises(InvalidInput):
        submit_many(
            [NewTask(program=PROGRAM, version=VERSION), NewTask(program=PROGRAM, version=VERSION, priority=101)]
        )
    assert not Task.objects.exists()
    assert submit_many([]) == []


def test_more_than_a_batch_is_submitted_in_order(db):
    tasks = [NewTask(program=PROGRAM, version=VERSION, data=n, queue=f"q{n % 3}") for n in range(2 * BATCH + 1)]
    handles = submit_many(tasks)
    data = dict(execute("select id, data::text::int from ledgence_task"))
    assert [data[handle.id] for handle in handles] == list(range(2 * BATCH + 1))
    assert DeliveryIntent.objects.count() == 2 * BATCH + 1
    assert_audit_clean()


# Idempotency keys


def test_a_repeat_returns_the_first_task_and_writes_nothing(db):
    first = send({"n": 1}, idempotency_key="k")
    again = send({"n": 1}, idempotency_key="k")
    assert (again.id, first.is_new, again.is_new) == (first.id, True, False)
    assert Task.objects.count() == DeliveryIntent.objects.count() == 1


def test_a_repeat_returns_the_first_task_also_when_it_is_over(worker: Worker):
    first = send(idempotency_key="k")
    worker.settle(worker.acquire_one())
    assert send(idempotency_key="k").id == first.id
    assert not DeliveryIntent.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"n": 2}},
        {"data": {"n": 1.0}},
        {"data": {"n": "1"}},
        {"data": {"n": True}},
        {"data": {"n": 1, "m": None}},
        {"data": [["n", 1]]},
        {"queue": "other"},
        {"program": "tests.other"},
        {"version": "2"},
        {"correlation_key": "c"},
    ],
)
def test_other_content_under_a_key_is_a_conflict_and_poisons_nothing(db, change):
    first = send({"n": 1}, idempotency_key="k")
    given = {"program": PROGRAM, "data": {"n": 1}, "version": VERSION, "idempotency_key": "k"} | change
    with transaction.atomic():
        with pytest.raises(Conflict, match="'k' was used before with other content") as caught:
            submit(**given)
        assert caught.value.task_id == first.id
        assert str(first.id) not in str(caught.value)
        assert send({"n": 1}, idempotency_key="k").id == first.id
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 7},
        {"run_after": datetime(2100, 1, 1, tzinfo=UTC)},
        {"max_attempts": 9},
        {"timeout": None},
        {"backoff": Backoff(initial_seconds=1)},
        {"retry_on": ("failed",)},
        {"traceparent": "00-a-b-01"},
    ],
)
def test_terms_are_no_content(db, change):
    first = send({"n": 1}, idempotency_key="k")
    again = send({"n": 1}, idempotency_key="k", **change)
    assert (again.id, again.is_new) == (first.id, False)
    assert Task.objects.count() == 1


def test_the_order_of_keys_is_no_content(db):
    first = send({"a": 1, "b": {"c": 2, "d": 3}}, idempotency_key="k")
    assert send({"b": {"d": 3, "c": 2}, "a": 1}, idempotency_key="k").id == first.id
    assert data_of(first.id) == '{"a":1,"b":{"c":2,"d":3}}'


@pytest.mark.parametrize("scope", [{"tenant": "other"}, {"namespace": "other"}])
def test_a_key_belongs_to_a_tenant_and_namespace(db, scope):
    assert send(1, idempotency_key="k").is_new
    assert send(2, idempotency_key="k", **scope).is_new
    assert Task.objects.count() == 2


def test_a_key_twice_in_one_call_is_one_task(db):
    tasks = [NewTask(program=PROGRAM, version=VERSION, data=n, idempotency_key=f"k{n}") for n in (1, 2, 1)]
    one, two, three = submit_many(tasks)
    assert (one.id, one.is_new, two.is_new, three.is_new) == (three.id, True, True, False)
    assert one.id != two.id
    assert_audit_clean()


def test_a_key_twice_in_one_call_with_other_content_is_a_conflict(db):
    tasks = [NewTask(program=PROGRAM, version=VERSION, data=n, idempotency_key="k") for n in (1, 2)]
    with pytest.raises(Conflict, match="stands twice"):
        submit_many(tasks)
    assert not Task.objects.exists()


def test_keys_in_several_batches_are_answered_in_order(db):
    def tasks(start, end):
        return [NewTask(program=PROGRAM, version=VERSION, data=n, idempotency_key=f"k{n}") for n in range(start, end)]

    first = submit_many(tasks(0, 700))
    both = submit_many(tasks(400, BATCH * 2 + 300))
    assert [handle.is_new for handle in both] == [n >= 700 for n in range(400, BATCH * 2 + 300)]
    assert [handle.id for handle in both[:300]] == [handle.id for handle in first[400:]]
    keys = dict(Task.objects.values_list("pk", "idempotency_key"))
    assert [keys[handle.id] for handle in both] == [f"k{n}" for n in range(400, BATCH * 2 + 300)]
    assert_audit_clean()


def test_a_conflict_in_a_later_batch_leaves_nothing_of_the_call(db):
    send(-1, idempotency_key="z")
    tasks = [NewTask(program=PROGRAM, version=VERSION, data=n, idempotency_key=f"k{n}") for n in range(BATCH)]
    with pytest.raises(Conflict):
        submit_many([*tasks, NewTask(program=PROGRAM, version=VERSION, data=0, idempotency_key="z")])
    assert Task.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("committed", [True, False])
def test_a_submission_under_the_same_key_waits_for_the_others_transaction(committed):
    send(0)
    with Rival() as rival:
        try:
            with transaction.atomic():
                mine = send(1, idempotency_key="k")
                waiting = rival.begin(lambda: send(1, idempotency_key="k"))
                rival.wait_until_blocked(waiting)
                if not committed:
                    raise Undo
        except Undo:
            pass
        theirs = waiting.result(20)
    assert theirs.is_new is not committed
    assert (theirs.id == mine.id) is committed
    assert list(Task.objects.filter(idempotency_key="k").values_list("pk", flat=True)) == [theirs.id]
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
def test_other_content_under_a_key_that_commits_meanwhile_is_a_conflict():
    send(0)
    with Rival() as rival:
        with transaction.atomic():
            send(1, idempotency_key="k")
            waiting = rival.begin(lambda: send(2, idempotency_key="k"))
            rival.wait_until_blocked(waiting)
        with pytest.raises(Conflict):
            waiting.result(20)


@pytest.mark.django_db(transaction=True)
def test_a_key_that_stays_held_is_busy_and_poisons_nothing(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    send(0)
    with Rival() as rival, rival.transaction():
        rival.do(lambda: send(1, idempotency_key="k"))
        with transaction.atomic():
            execute("set local lock_timeout = '7s'")
            with pytest.raises(Busy, match="submit"):
                submit_many(
                    [NewTask(program=PROGRAM, version=VERSION, data=1, idempotency_key=key) for key in ("a", "k")]
                )
            assert execute("show lock_timeout") == [("7s",)]
            kept = send(2)
    assert set(Task.objects.exclude(data=None).values_list("idempotency_key", flat=True)) == {None, "k"}
    assert Task.objects.filter(pk=kept.id).exists()


@pytest.mark.django_db(transaction=True)
def test_a_keyed_submission_gives_the_callers_lock_time_out_back():
    with transaction.atomic():
        execute("set local lock_timeout = '7s'")
        send(1, idempotency_key="k")
        assert execute("show lock_timeout") == [("7s",)]
    assert execute("show lock_timeout") == [("0",)]


@pytest.mark.django_db(transaction=True)
def test_two_calls_with_many_keys_in_opposite_order_end_without_a_deadlock():
    def tasks(order):
        return [NewTask(program=PROGRAM, version=VERSION, data=n, idempotency_key=f"k{n}") for n in order]

    send(0)
    with Rival() as rival:
        with transaction.atomic():
            mine = submit_many(tasks(range(50)))
            waiting = rival.begin(lambda: submit_many(tasks(reversed(range(50)))))
            rival.wait_until_blocked(waiting)
        theirs = waiting.result(20)
    assert [handle.id for handle in theirs] == [handle.id for handle in mine][::-1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_stricter_isolation_sees_earlier_keys_and_is_busy_over_later_ones(isolation):
    earlier = send(1, idempotency_key="earlier")
    with Rival() as rival, transaction.atomic():
        execute(f"set transaction isolation level {isolation}")
        execute("select 1")
        later = rival.do(lambda: send(1, idempotency_key="later"))
        assert send(1, idempotency_key="earlier").id == earlier.id
        with pytest.raises(Busy):
            send(1, idempotency_key="later")
        assert send(1, idempotency_key="new").is_new
    # A new transaction sees it.
    assert send(1, idempotency_key="later").id == later.id
    assert_audit_clean()


def test_keys_that_keep_changing_hands_are_busy_and_nothing_is_written(db, monkeypatch):
    send(1, idempotency_key="k")
    monkeypatch.setattr(submit_module, "_find_keys", lambda pending, using: {})
    with transaction.atomic():
        with pytest.raises(Busy, match="1 idempotency keys kept changing hands"):
            submit_many([NewTask(program=PROGRAM, version=VERSION, data=1, idempotency_key=key) for key in ("a", "k")])
        assert Task.objects.count() == 1


# Queues, programs and policies


def test_equal_terms_share_queue_program_and_policy(db):
    submit_tasks(3)
    submit_task(max_attempts=9)
    assert (Queue.objects.count(), Program.objects.count(), Policy.objects.count()) == (1, 1, 2)


def test_a_program_fills_in_its_entry_point(db):
    send(1)
    assert Program.objects.get().entry_point is None
    submit(registered(), 1)
    assert Program.objects.get().entry_point == "tests.programs:work"
    send(1)
    assert Program.objects.get().entry_point == "tests.programs:work"
    assert Task.objects.count() == 3


@pytest.mark.parametrize("key", [None, "k"])
def test_another_entry_point_under_a_version_is_a_conflict_and_poisons_nothing(db, key):
    submit(registered(), 1)
    with transaction.atomic():
        with pytest.raises(Conflict, match="'tests.work' version '1' is tests.programs:work, and .* other:work"):
            submit_many(
                [
                    NewTask(program=PROGRAM, version="2", queue="new", idempotency_key=key and key + "2"),
                    NewTask(program=registered("other:work"), idempotency_key=key),
                ]
            )
        submit(registered(), 2)
    assert Task.objects.count() == 2
    assert not Queue.objects.filter(name="new").exists()


@pytest.mark.parametrize("key", [None, "k"])
def test_a_program_known_and_unknown_in_one_call_is_one(db, key):
    tasks = [NewTask(program=PROGRAM, version=VERSION), NewTask(program=registered(), idempotency_key=key)]
    submit_many(tasks)
    submit_many([replace(task, idempotency_key=key and "other") for task in tasks[::-1]])
    assert Program.objects.get().entry_point == "tests.programs:work"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("committed", [True, False])
def test_two_that_make_the_same_queue_program_and_policy_agree(key, committed):
    with Rival() as rival:
        try:
            with transaction.atomic():
                send(1, queue="new")
                waiting = rival.begin(lambda: send(2, queue="new", idempotency_key=key))
                rival.wait_until_blocked(waiting)
                if not committed:
                    raise Undo
        except Undo:
            pass
        assert waiting.result(20).is_new
    assert (Queue.objects.count(), Program.objects.count(), Policy.objects.count()) == (1, 1, 1)
    assert Task.objects.count() == (2 if committed else 1)
    assert_audit_clean()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("key", [None, "k"])
def test_a_queue_that_somebody_else_is_making_is_busy_at_last_and_poisons_nothing(settings, key):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    send(0, queue="old")
    with Rival() as rival, rival.transaction():
        rival.do(lambda: send(1, queue="new"))
        with transaction.atomic():
            with pytest.raises(Busy, match="submit"):
                submit_many(
                    [
                        NewTask(program=PROGRAM, version=VERSION, queue="old", idempotency_key=key),
                        NewTask(program=PROGRAM, version=VERSION, queue="new", idempotency_key=key and "other"),
                    ]
                )
            assert Task.objects.count() == 1
            send(2, queue="old")
    assert Task.objects.count() == 3


def test_a_policy_that_does_not_change_is_written_once(db):
    for retry_on in (("lost", "failed"), ("failed", "lost", "lost")):
        submit_task(retry_on=retry_on, max_attempts=4, timeout=60.0)
    submit_task(retry_on=("failed", "lost"), max_attempts=4, timeout=60)
    assert Policy.objects.count() == 1


# Bad input is refused before anything is written


class Strange:
    pass


@pytest.mark.parametrize(
    "data",
    [
        math.nan,
        math.inf,
        [-math.inf],
        {"a": math.nan},
        {1: 2},
        {None: 1},
        {("a", "b"): 1},
        {"a": Strange()},
        {"a": {1, 2}},
        b"bytes",
        datetime(2026, 1, 1, tzinfo=UTC),
        "\ud800",
        {"\udc00": 1},
        ["\ud83d", "\ude00"],
        pytest.param(10**5_000, id="5000 digits"),
    ],
)
def test_data_that_is_no_strict_json_is_refused(nothing_is_written, data):
    with pytest.raises(InvalidInput, match="data"):
        send(data)


def nested(levels):
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_the_depth_of_data_is_exact(db):
    with pytest.raises(InvalidInput, match="at most 64 levels"):
        send(nested(65))
    assert not Task.objects.exists()
    assert data_of(send(nested(64)).id) == "[" * 64 + "]" * 64


def test_data_that_holds_itself_is_refused(nothing_is_written):
    loop: list = []
    loop.append(loop)
    with pytest.raises(InvalidInput):
        send(loop)
    with pytest.raises(InvalidInput):
        send(nested(20_000))


@pytest.mark.parametrize("character", ["a", "é", "😀"])
def test_the_size_of_data_is_exact_in_bytes(db, character):
    room = limits.DATA_BYTES - 2
    width = len(character.encode())
    text = "a" * (room % width) + character * (room // width)
    with pytest.raises(InvalidInput, match=f"{limits.DATA_BYTES + 1} bytes"):
        send(text + "a")
    assert not Task.objects.exists()
    for fitting in (text, text[1:]):
        assert data_of(send(fitting).id) == f'"{fitting}"'


@pytest.mark.parametrize(
    "data",
    [
        None,
        "",
        "\0",
        {"\0": ["\0\0"]},
        -0.0,
        1e300,
        2**63,
        -(2**63) - 1,
        10**400,
        "\u2028\u202e\ufffe",
        "😀",
        {"b": 1, "a": 2},
        "'; drop table x; -- %s {0} $1 \\",
    ],
)
def test_strict_data_comes_to_the_worker_as_it_was_sent(worker: Worker, data):
    send(data)
    text = worker.acquire_one().data
    assert execute("select data::text from ledgence_task") == [(text,)]
    assert repr(json.loads(text)) == repr(data)


@pytest.mark.parametrize("priority", [-101, 101, 1.5, 1.0, True, "1", None])
def test_an_impossible_priority_is_refused(nothing_is_written, priority):
    with pytest.raises(InvalidInput, match="priority"):
        send(priority=priority)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_the_ends_of_the_priorities_are_accepted(db, priority):
    assert Task.objects.get(pk=send(priority=priority).id).priority == priority


def test_a_naive_run_after_is_refused(nothing_is_written):
    with pytest.raises(InvalidInput, match="aware"):
        send(run_after=datetime(2026, 1, 1))


def test_a_run_after_is_a_moment_whatever_its_zone(clock: FrozenClock):
    moment = clock.now + timedelta(days=1)
    send(run_after=moment.astimezone(tz=UTC))
    assert DeliveryIntent.objects.get().available_at == moment


@pytest.mark.parametrize("name", ["tenant", "namespace", "queue", "program", "version"])
@pytest.mark.parametrize("value", ["", " a", "a ", "a\n", "\0", "a" * 129, "é" * 64 + "a", "\ud800", 7, None])
def test_an_identifier_has_1_to_128_bytes_of_printable_text(nothing_is_written, name, value):
    if value is None and name in ("tenant", "namespace", "queue"):
        return
    given = {"program": PROGRAM, "version": VERSION} | {name: value}
    with pytest.raises(InvalidInput, match=name):
        submit(**given)


@pytest.mark.parametrize("name", ["tenant", "namespace", "queue", "program", "version"])
@pytest.mark.parametrize("value", ["a", "a" * 128, "é" * 64, "a b", "q'; drop table x;--", "%s", "../../etc"])
def test_identifiers_at_the_limit_and_of_any_script_are_kept(db, name, value):
    handle = submit(**{"program": PROGRAM, "version": VERSION} | {name: value})
    task = Task.objects.get(pk=handle.id)
    kept = {
        "tenant": task.tenant,
        "namespace": task.namespace,
        "queue": task.queue.name,
        "program": task.program.name,
        "version": task.program.version,
    }
    assert kept[name] == value


@pytest.mark.parametrize("name", ["idempotency_key", "correlation_key"])
@pytest.mark.parametrize("value", ["", "a\0", "a\n", "\ud800", "a" * 256, "é" * 127 + "aa", 7])
def test_a_key_has_1_to_255_bytes_of_printable_text(nothing_is_written, name, value):
    with pytest.raises(InvalidInput, match=name):
        send(**{name: value})


@pytest.mark.parametrize("name", ["idempotency_key", "correlation_key"])
@pytest.mark.parametrize("value", ["a", " a ", "a" * 255, "é" * 127 + "a"])
def test_keys_at_the_limit_are_kept(db, name, value):
    send(**{name: value})
    assert getattr(Task.objects.get(), name) == value


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": ATTEMPTS_MAX + 1},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": math.nan},
        {"timeout": math.inf},
        {"timeout": "60"},
        {"retry_on": ("succeeded",)},
        {"retry_on": ("interrupted",)},
        {"retry_on": ("NoDots",)},
        {"retry_on": (7,)},
        {"retry_on": ("a.\0",)},
        {"traceparent": "a" * 56},
        {"traceparent": "é"},
        {"traceparent": "a\n"},
    ],
)
def test_impossible_terms_are_refused(nothing_is_written, options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        send(**options)


@pytest.mark.parametrize(
    "options", [{"max_attempts": 1}, {"max_attempts": ATTEMPTS_MAX}, {"timeout": 0.001}, {"timeout": 31_536_000}]
)
def test_terms_at_their_ends_are_accepted(worker: Worker, options):
    send(**options)
    assert len(worker.acquire(1)) == 1


@pytest.mark.parametrize(
    "backoff",
    [
        {"initial_seconds": -1},
        {"initial_seconds": math.nan},
        {"factor": 0.9},
        {"factor": 10.1},
        {"maximum_seconds": 1, "initial_seconds": 2},
        {"maximum_seconds": 31_536_001},
        {"jitter": -0.1},
        {"jitter": 1.1},
    ],
)
def test_a_backoff_that_could_overflow_cannot_be_made(backoff):
    with pytest.raises(InvalidInput, match="backoff"):
        Backoff(**backoff)


# Where a submission's terms come from


def test_a_submissions_word_comes_before_its_programs_and_that_before_the_settings(db, settings):
    settings.LEDGENCE = {"MAX_ATTEMPTS": 7, "TIMEOUT_SECONDS": 70, "QUEUE": "settings", "RETRY_ON": ("failed",)}
    program = registered(max_attempts=5, timeout_seconds=None, queue="program")
    submit(program, 1)
    submit(program, 2, max_attempts=1, timeout=10, queue="mine", retry_on=())
    send(3)
    rows = [
        (task.queue.name, task.policy.max_attempts, task.policy.timeout_seconds, task.policy.retry_on)
        for task in Task.objects.select_related("queue", "policy").order_by("pk")
    ]
    assert rows == [("program", 5, None, ["failed"]), ("mine", 1, 10.0, []), ("settings", 7, 70.0, ["failed"])]


def test_a_name_alone_needs_a_registered_version(nothing_is_written):
    with pytest.raises(InvalidInput, match="not registered in this process"):
        submit("tests.unregistered", 1)
    with pytest.raises(InvalidInput, match="must be a registered program or its name"):
        submit(7, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not dict"):
        submit({"called": "instead of named"}, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not function: a function becomes one by @ledgence.program"):
        submit(test_a_name_alone_needs_a_registered_version, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="queue"):
        submit(registered(), 1, queue=["mine"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="is version 1"):
        submit(registered(), 1, version="2")


@pytest.mark.django_db(transaction=True)
def test_a_submission_without_a_transaction_commits_itself():
    handle = send(1)
    assert not connection.in_atomic_block
    with Rival() as rival:
        assert rival.execute("select count(*) from ledgence_task where id = %s", [handle.id]) == [(1,)]


def test_the_retried_exceptions_may_stand_in_a_list(db):
    task = submit("tests.work", version="1", retry_on=["crashed", ConnectionError])
    assert Task.objects.get(pk=task.id).policy.retry_on == ["builtins.ConnectionError", "crashed"]


def test_the_options_of_submit_are_the_fields_of_a_new_task():
    assert set(SubmitOptions.__annotations__) == {f.name for f in fields(NewTask)} - {"program", "data"}
