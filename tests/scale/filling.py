"""Fills a ledger as years of work would: with finished tasks, work for later, and leases that others hold."""

from typing import Any
from uuid import UUID

from tests.ledger.actors import Worker, execute, submit_task

#: So many that a plan which reads them all is far beyond every bound.
MANY = 600_000
LEASES = 5_000


def fill(worker: Worker, *, finished: int = MANY, future: int = MANY, leases: int = LEASES) -> None:
    """Add tasks like one of the worker's: finished, queued for later at every priority, and leased by the worker."""
    sample = {"sample": submit_task(), "session": worker.session_id}
    for statement, count in ((FINISHED, finished), (FUTURE, future), (LEASED, leases)):
        _insert(statement, sample | {"count": count})


def fill_due(*, like: UUID, count: int) -> None:
    """Add tasks like a given one that have been due for an hour."""
    _insert(DUE, {"sample": like, "count": count})


def fill_published(*, like: UUID, count: int) -> None:
    """Add tasks like a given one of an external queue: half confirmed and to be repaired later, half for later."""
    _insert(PUBLISHED, {"sample": like, "count": count})


def _insert(statement: str, parameters: dict[str, Any]) -> None:
    """Insert without the triggers of foreign keys, whose rows are the sample's."""
    execute("set session_replication_role = replica")
    execute(statement, parameters)
    execute("set session_replication_role = origin")


# Version 7 ids in order of submission: a year ago, with a random tail.
TASKS = """
insert into ledgence_task (id, tenant, namespace, queue_id, program_id, policy_id, priority, submitted_at, data,
                           outcome, finished_at, result, revision)
select overlay(overlay(gen_random_uuid()::text placing lpad(to_hex(ms >> 16), 8, '0') || '-'
                       || lpad(to_hex(ms & 65535), 4, '0') from 1 for 13) placing '7' from 15 for 1)::uuid,
       t.tenant, t.namespace, t.queue_id, t.program_id, t.policy_id, {priority}, now() - interval '1 y', t.data,
       {outcome}, case when {outcome} is not null then now() - n * interval '1 s' end,
       case when {outcome} = 'succeeded' then '{{}}'::json end, 1
from ledgence_task t, generate_series(1, %(count)s) n,
     lateral (select (extract(epoch from now() - interval '1 y') * 1000)::bigint + n as ms) v
where t.id = %(sample)s
returning id, queue_id, program_id, priority, outcome, finished_at
"""

ATTEMPTS = """
insert into ledgence_attempt (task_id, number, cause, session_id, token, claimed_at, authorized_at, lease_expires_at,
                              finished_at, outcome, consequence, settlement, report, delivery_mode, available_at)
select id, 1, 'submitted', %(session)s, gen_random_uuid(), now(), now(), now(), finished_at, outcome, outcome,
       case when outcome is not null then sha256('x') end, '{{}}', 'integrated', now()
from task returning task_id, token
"""

# One in twenty failed.
FINISHED = f"with task as ({TASKS}) {ATTEMPTS}".format(
    priority=0, outcome="case when n %% 20 = 0 then 'failed' else 'succeeded' end"
)

# These are put together from the texts above.
QUEUED = f"""
with task as ({TASKS})
insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority, available_at)
select id, 1, 'submitted', 0, queue_id, program_id, priority, {{available_at}} from task
"""  # noqa: S608

FUTURE = QUEUED.format(
    priority="n %% 201 - 100", outcome="null::text", available_at="now() + interval '1 d' + random() * interval '9 d'"
)

DUE = QUEUED.format(
    priority="t.priority", outcome="null::text", available_at="now() - interval '1 h' + random() * interval '1 min'"
)

PUBLISHED = f"""
with task as ({TASKS})
insert into ledgence_deliveryintent (task_id, generation, cause, charged, queue_id, program_id, priority, available_at,
                                     publication_id, next_publish_at, publications, confirmed_at)
select id, 1, 'submitted', 0, queue_id, program_id, priority,
       case when is_confirmed then now() - interval '1 h' else later end,
       gen_random_uuid(), later, is_confirmed::int, case when is_confirmed then now() end
from (
    select *, random() < 0.5 as is_confirmed, now() + interval '1 h' + random() * interval '1 h' as later from task
) t
""".format(  # noqa: S608
    priority="t.priority", outcome="null::text"
)

LEASED = f"""
with task as ({TASKS}), attempt as ({ATTEMPTS})
insert into ledgence_lease (task_id, number, token, session_id, queue_id, program_id, priority, charged, expires_at)
select id, 1, token, %(session)s, queue_id, program_id, priority, 0, now() + interval '1 d' + random() * interval '1 d'
from task join attempt on attempt.task_id = task.id
""".format(  # noqa: S608
    priority=0, outcome="null::text"
)
