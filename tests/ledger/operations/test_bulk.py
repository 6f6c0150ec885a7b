"""Actions in chunks: each row once, whoever applies them and whenever they end; what is held or refused waits alone."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, transaction
from django.utils import timezone

from ledgence import sql
from ledgence.housekeeping import Housekeeping
from ledgence.models import DeliveryIntent, OperatorAction, OperatorActionTarget, Queue, Task
from ledgence.operations import bulk as module
from ledgence.operations.actions import Operator
from ledgence.operations.bulk import PARTS, Bulk, begin_bulk, stop
from ledgence.operations.cancel import cancel
from ledgence.operations.operate import requeue
from ledgence_worker.errors import Conflict, InvalidInput
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import (
    USING,
    Worker,
    assert_audit_clean,
    execute,
    operator,
    state_of,
    submit_task,
    submit_tasks,
)
from tests.ledger.rivals import Rival
from tests.scale.explaining import explained

Kind, State = OperatorAction.Kind, OperatorAction.State
SCOPE = {"list": "task", "filter": "state=queued", "words": "state: queued", "bound": "none"}
CHUNK = 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", CHUNK)


def begin(kind: OperatorAction.Kind, tasks: list[UUID], **parameters: Any) -> Operator:
    by = operator("too many to name")
    begin_bulk(kind, tasks, by, scope=SCOPE, parameters=parameters or None, using=USING)
    return by


def action_of(by: Operator) -> OperatorAction:
    return OperatorAction.objects.get(pk=by.action_id)


def answers_of(by: Operator) -> dict[str, str]:
    return dict(OperatorActionTarget.objects.filter(action=by.action_id).values_list("target", "answer"))


def apply(bulk: Bulk | None = None) -> int:
    """Apply all that runs, and return in how many turns."""
    bulk, turns = bulk or Bulk(USING), 1
    while bulk.turn():
        turns += 1
    return turns


class TestBegin:
    def test_nothing_is_applied_yet_and_what_was_seen_is_kept(self, db: None):
        tasks = submit_tasks(6)
        by = begin(Kind.CANCEL, tasks)
        action = action_of(by)
        assert (action.kind, action.state, action.matched, action.changed, action.skipped) == (
            *("cancel", "running"),
            *(6, 0, None),
        )
        assert (action.scope, action.finished_at, action.reason) == (SCOPE, None, "too many to name")
        assert set(OperatorActionTarget.objects.values_list("target", "expected_revision", "answer")) == {
            (str(task), 0, "") for task in tasks
        }
        assert {state_of(task) for task in tasks} == {"queued"}

    @pytest.mark.parametrize(
        ("kind", "seen"),
        [
            (Kind.REQUEUE, [1, 0, 0]),
            (Kind.CANCEL, [1, 0, 0]),
            (Kind.COPY, [None, None, None]),
            (Kind.REPUBLISH, [None, None, 1]),
            (Kind.RUN_NOW, [None, None, 1]),
            (Kind.MOVE, [None, None, 1]),
            (Kind.SET_PRIORITY, [None, None, 1]),
            (Kind.FORCE_EXPIRE, [None, 1, None]),
        ],
    )
    def test_each_kind_sees_what_it_compares(self, worker: Worker, kind: OperatorAction.Kind, seen: list[int | None]):
        over, active, queued = submit_tasks(3)
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        worker.acquire_one()
        chosen: dict[str, dict[str, Any]] = {Kind.MOVE: {"queue": "default"}, Kind.SET_PRIORITY: {"priority": 1}}
        begin(kind, [over, active, queued], **chosen.get(kind, {}))
        rows = OperatorActionTarget.objects.order_by("pk").values_list("target", "expected_revision")
        assert list(rows) == [(str(t), s) for t, s in zip((over, active, queued), seen, strict=True)]

    def test_every_kind_that_acts_on_tasks_can_be_applied_in_chunks(self):
        about_tasks = (
            set(Kind)
            - {Kind.PAUSE, Kind.RESUME, Kind.DRAIN, Kind.STOP, Kind.ROUTE}
            - {*(Kind.ISSUE_TOKEN, Kind.REVOKE_TOKEN)}
        )
        assert about_tasks == set(PARTS)

    def test_a_repeat_begins_nothing_also_when_nothing_matches_any_more(self, db: None):
        tasks = submit_tasks(3)
        by = begin(Kind.CANCEL, tasks)
        apply()
        for again in (tasks, tasks[:1], []):
            begin_bulk(Kind.CANCEL, again, by, scope=SCOPE, using=USING)
        assert OperatorActionTarget.objects.count() == 3
        assert action_of(by).state == State.DONE

    def test_an_id_used_for_something_else_is_a_conflict(self, db: None):
        tasks = submit_tasks(2)
        by = begin(Kind.SET_PRIORITY, tasks, priority=1)
        for kind, scope, parameters in (
            (Kind.SET_PRIORITY, SCOPE, {"priority": 2}),
            (Kind.SET_PRIORITY, SCOPE | {"filter": ""}, {"priority": 1}),
            (Kind.MOVE, SCOPE, {"queue": "default"}),
        ):
            with pytest.raises(Conflict, match="recorded before"):
                begin_bulk(kind, tasks, by, scope=scope, parameters=parameters, using=USING)

    @pytest.mark.parametrize("rows", [0, module.ROWS_MAX + 1])
    def test_an_action_has_1_to_so_many_rows(self, db: None, rows: int):
        with pytest.raises(InvalidInput, match=f"{rows} rows"):
            begin(Kind.CANCEL, [UUID(int=n) for n in range(rows)])
        assert not OperatorAction.objects.exists()

    @pytest.mark.parametrize(
        ("kind", "parameters"), [(Kind.MOVE, {"queue": ""}), (Kind.SET_PRIORITY, {"priority": 999})]
    )
    def test_what_no_row_could_take_is_refused_at_once(self, db: None, kind: OperatorAction.Kind, parameters: Any):
        with pytest.raises(InvalidInput):
            begin(kind, submit_tasks(2), **parameters)
        assert not OperatorAction.objects.exists()

    def test_a_reason_is_required(self, db: None):
        by = Operator(action_id=uuid4(), name="op", reason=" ")
        with pytest.raises(InvalidInput, match="reason"):
            begin_bulk(Kind.CANCEL, submit_tasks(1), by, scope=SCOPE, using=USING)


class TestApply:
    def test_all_rows_are_answered_chunk_by_chunk(self, db: None):
        tasks = submit_tasks(10)
        by = begin(Kind.CANCEL, tasks)
        bulk = Bulk(USING)
        assert bulk.turn()
        assert (action_of(by).changed, sorted(answers_of(by).values()).count("")) == (CHUNK, 10 - CHUNK)
        # Two chunks more, and the turn that finds no row left.
        assert apply(bulk) == 3
        action = action_of(by)
        assert (action.state, action.changed, action.skipped) == ("done", 10, None)
        assert action.finished_at is not None and action.finished_at >= action.acted_at
        assert set(answers_of(by).values()) == {"cancelled"}
        assert_audit_clean()

    @pytest.mark.parametrize("kind", PARTS)
    def test_each_kind_is_applied(self, worker: Worker, kind: str):
        Queue.objects.create(tenant="default", namespace="default", name="other")
        over = [submit_task() for _ in range(5)]
        for assignment in worker.acquire(5):
            worker.settle(assignment, Outcome.FAILED)
        active = submit_tasks(5)
        worker.acquire(5)
        queued = submit_tasks(5, run_after=timezone.now() + timedelta(hours=1))
        chosen: dict[str, dict[str, Any]] = {Kind.MOVE: {"queue": "other"}, Kind.SET_PRIORITY: {"priority": 7}}
        by = begin(Kind(kind), [*over, *active, *queued], **chosen.get(kind, {}))
        apply()
        action = action_of(by)
        expected = {Kind.REQUEUE: 5, Kind.COPY: 15, Kind.CANCEL: 10, Kind.FORCE_EXPIRE: 5}.get(Kind(kind), 5)
        assert (action.state, action.changed) == ("done", expected)
        assert sum((action.skipped or {}).values()) == 15 - expected
        assert_audit_clean()

    def test_each_row_is_judged_by_the_state_it_is_in_when_its_chunk_comes(self, worker: Worker):
        tasks = submit_tasks(10)
        by = begin(Kind.SET_PRIORITY, tasks, priority=5)
        bulk = Bulk(USING)
        bulk.turn()
        cancel(tasks[7:8], using=USING)
        execute("update ledgence_deliveryintent set priority = 90 where task_id = %s", [tasks[8]])
        worker.settle(worker.acquire_one(), Outcome.CRASHED)
        apply(bulk)
        action = action_of(by)
        assert (action.changed, action.skipped) == (8, {"moved_on": 1, "not_queued": 1})
        assert [answers_of(by)[str(task)] for task in tasks[7:]] == ["not_queued", "moved_on", "set"]

    def test_two_actions_go_on_side_by_side(self, db: None):
        first, second = submit_tasks(6), submit_tasks(6)
        one, other = begin(Kind.CANCEL, first), begin(Kind.SET_PRIORITY, second, priority=1)
        bulk = Bulk(USING)
        assert bulk.turn()
        assert (action_of(one).changed, action_of(other).changed) == (CHUNK, CHUNK)
        apply(bulk)
        assert set(OperatorAction.objects.values_list("state", "changed")) == {("done", 6)}

    def test_two_operators_who_requeue_the_same_tasks_make_one_generation_each(self, worker: Worker):
        tasks = [submit_task() for _ in range(6)]
        for assignment in worker.acquire(6):
            worker.settle(assignment, Outcome.FAILED)
        one, other = begin(Kind.REQUEUE, tasks), begin(Kind.REQUEUE, tasks)
        apply()
        assert (action_of(one).changed, action_of(other).changed) == (6, 0)
        assert action_of(other).skipped == {"moved_on": 6}
        assert set(Task.objects.values_list("revision", flat=True)) == {2}
        assert_audit_clean()

    def test_one_by_one_at_once_and_in_chunks_act_once(self, worker: Worker):
        task = submit_task()
        worker.settle(worker.acquire_one(), Outcome.FAILED)
        by = begin(Kind.REQUEUE, [task])
        assert requeue({task: 1}, operator(), using=USING) == {str(task): "requeued"}
        apply()
        assert action_of(by).skipped == {"moved_on": 1}
        assert_audit_clean()


class TestInterrupted:
    def test_another_process_goes_on_after_a_crash_between_chunks(self, db: None):
        by = begin(Kind.CANCEL, submit_tasks(10))
        Bulk(USING).turn()
        apply(Bulk(USING))
        assert (action_of(by).state, action_of(by).changed) == ("done", 10)
        assert_audit_clean()

    @pytest.mark.parametrize("statement", ["take_targets", "cancel_intents", "answer_targets"])
    def test_a_chunk_that_breaks_off_leaves_nothing(self, db: None, monkeypatch: pytest.MonkeyPatch, statement: str):
        tasks = submit_tasks(10)
        by = begin(Kind.CANCEL, tasks)
        run = sql.run

        def break_off(name: str, *arguments: Any) -> Any:
            rows = run(name, *arguments)
            if name == statement:
                raise OperationalError("the connection is closed")
            return rows

        with monkeypatch.context() as patch:
            patch.setattr(sql, "run", break_off)
            with pytest.raises(OperationalError):
                Bulk(USING).turn()
        assert {state_of(task) for task in tasks} == {"queued"}
        assert (action_of(by).changed, set(answers_of(by).values())) == (0, {""})
        apply()
        assert (action_of(by).state, action_of(by).changed) == ("done", 10)
        assert_audit_clean()

    def test_a_stop_ends_it_and_what_is_left_stays(self, db: None):
        tasks = submit_tasks(10)
        by, halt = begin(Kind.CANCEL, tasks), operator("wrong filter")
        bulk = Bulk(USING)
        bulk.turn()
        assert stop([by.action_id], halt, using=USING) == {str(by.action_id): "stopped"}
        assert not bulk.turn()
        action = action_of(by)
        assert (action.state, action.changed) == ("stopped", CHUNK)
        assert action.finished_at is not None
        assert [state_of(task) for task in tasks].count("queued") == 10 - CHUNK
        record = action_of(halt)
        assert (record.kind, record.reason, record.changed) == ("stop", "wrong filter", 1)
        assert stop([by.action_id, uuid4()], operator(), using=USING)[str(by.action_id)] == "already"
        assert stop([by.action_id], halt, using=USING) == {str(by.action_id): "stopped"}

    def test_what_is_done_is_not_stopped(self, db: None):
        by = begin(Kind.CANCEL, submit_tasks(1))
        apply()
        assert stop([by.action_id], operator(), using=USING) == {str(by.action_id): "already"}
        assert action_of(by).state == "done"


@pytest.mark.django_db(transaction=True)
class TestRivals:
    def test_two_processes_take_different_rows(self):
        tasks = submit_tasks(10)
        by = begin(Kind.CANCEL, tasks)
        mine, theirs = Bulk(USING), Bulk(USING)
        with Rival() as rival:
            with transaction.atomic():
                mine.turn()
                # It waits for nothing but the action's own row, at the very end.
                other = rival.begin(theirs.turn)
                rival.wait_until_blocked(other)
            assert other.result(20)
            assert action_of(by).changed == 2 * CHUNK
            assert rival.do(theirs.turn)
            assert not apply(mine) > 2
        assert (action_of(by).state, action_of(by).changed, action_of(by).skipped) == ("done", 10, None)
        assert set(answers_of(by).values()) == {"cancelled"}
        assert_audit_clean()

    def test_an_action_is_not_done_while_another_process_has_rows(self):
        by = begin(Kind.CANCEL, submit_tasks(CHUNK))
        with Rival() as rival:
            with transaction.atomic():
                execute("select 1 from ledgence_operatoractiontarget for update")
                assert not rival.do(Bulk(USING).turn)
                assert action_of(by).state == "running"
            apply()
        assert action_of(by).state == "done"

    def test_a_stop_that_comes_while_a_chunk_is_on_its_way_lets_it_count(self):
        by = begin(Kind.SET_PRIORITY, submit_tasks(10), priority=3)
        with Rival() as rival:
            with transaction.atomic():
                Bulk(USING).turn()
                halt = rival.begin(lambda: stop([by.action_id], operator(), using=USING))
                rival.wait_until_blocked(halt)
            assert halt.result(20) == {str(by.action_id): "stopped"}
        assert (action_of(by).state, action_of(by).changed) == ("stopped", CHUNK)
        assert DeliveryIntent.objects.filter(priority=3).count() == CHUNK

    def test_what_somebody_holds_is_left_to_the_end(self, settings):
        settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.02}
        tasks = submit_tasks(10)
        by = begin(Kind.CANCEL, tasks)
        bulk = Bulk(USING)
        with Rival() as rival:
            with rival.transaction():
                rival.execute("select 1 from ledgence_deliveryintent where task_id = %s for update", [tasks[1]])
                apply(bulk)
                assert (action_of(by).state, action_of(by).changed) == ("running", 9)
                apply(bulk)
                assert answers_of(by)[str(tasks[1])] == ""
            apply(bulk)
        assert (action_of(by).state, action_of(by).changed) == ("done", 10)
        assert_audit_clean()

    def test_what_the_database_refuses_is_told_and_the_others_go_on(self):
        tasks = submit_tasks(10)
        by = begin(Kind.CANCEL, tasks)
        with refused(tasks[5]):
            apply()
        action = action_of(by)
        assert (action.state, action.changed, action.skipped) == ("done", 9, {"refused": 1})
        assert answers_of(by)[str(tasks[5])] == "refused"
        assert state_of(tasks[5]) == "queued"
        assert_audit_clean()


class refused:  # noqa: N801 - reads as a word
    """Let a trigger of the project's refuse every change of a task, as long as the block runs."""

    def __init__(self, task: UUID) -> None:
        self._task = task

    def __enter__(self) -> None:
        execute(
            f"create function refuse() returns trigger language plpgsql as $$ begin "  # noqa: S608 - an id of the test
            f"if new.id = '{self._task}' then raise exception 'no'; end if; return new; end $$; "
            "create trigger refuse before update on ledgence_task for each row execute function refuse()"
        )

    def __exit__(self, *_: object) -> None:
        execute("drop trigger refuse on ledgence_task; drop function refuse()")


def test_a_chunk_reads_its_own_rows_alone_though_the_server_knows_of_none(db: None):
    """An action brings more rows than the statistics tell of, which nobody gathers in time."""
    execute("analyze ledgence_operatoractiontarget")
    by = begin(Kind.CANCEL, [uuid4() for _ in range(10_000)])
    with explained() as plans:
        Bulk(USING).turn()
    assert action_of(by).skipped == {"not_found": CHUNK}
    seen = {plan.statement for plan in plans}
    assert seen >= {"find_running_actions", "take_targets", "answer_targets"}
    for plan in plans:
        for node in plan.nodes():
            if node.get("Relation Name") == "ledgence_operatoractiontarget":
                assert node["Node Type"] != "Seq Scan", str(plan)
                assert node["Actual Rows"] * node["Actual Loops"] <= 2 * CHUNK, str(plan)
                assert node.get("Rows Removed by Filter", 0) == 0, str(plan)


class TestWhoApplies:
    @pytest.fixture
    def housekeeping(self, db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Housekeeping]:
        made = Housekeeping(USING)
        monkeypatch.setattr(made._connections, "use", lambda role: None)
        yield made

    def test_housekeeping_applies_it_and_comes_again_soon(self, housekeeping: Housekeeping):
        by = begin(Kind.CANCEL, submit_tasks(6))
        assert housekeeping.turn() < 0.1
        while housekeeping.turn() < 0.1:
            pass
        assert action_of(by).state == "done"

    def test_housekeeping_resumes_what_was_paused_until_now(self, housekeeping: Housekeeping):
        submit_task()
        Queue.objects.update(paused_at=timezone.now(), paused_until=timezone.now(), pause_reason="deploy")
        housekeeping.turn()
        assert Queue.objects.get().paused_at is None

    def test_a_cron_job_applies_all_of_it(self, db: None, capsys: pytest.CaptureFixture[str]):
        by = begin(Kind.CANCEL, submit_tasks(10))
        call_command("ledgence_recover", "--once")
        assert action_of(by).state == "done"

    @pytest.mark.parametrize("prepare", [lambda by: None, lambda by: apply()], ids=["running", "done"])
    def test_by_hand_one_is_applied_and_told(
        self, db: None, capsys: pytest.CaptureFixture[str], prepare: Callable[[Operator], object]
    ):
        tasks = submit_tasks(10)
        cancel(tasks[:2], using=USING)
        by, other = begin(Kind.CANCEL, tasks), submit_tasks(2)
        prepare(by)
        later = begin(Kind.CANCEL, other)
        call_command("ledgence_bulk", str(by.action_id))
        assert capsys.readouterr().out == "state=done matched=10 changed=8 skipped=2\n"
        assert action_of(later).state == "running"

    def test_by_hand_an_unknown_one_is_told(self, db: None):
        with pytest.raises(CommandError, match="There is no operator action"):
            call_command("ledgence_bulk", str(uuid4()))
