"""Fills a ledger with tasks in every state, and with what grows beside them: sessions, records, messages, counts."""

from uuid import UUID

from tests.ledger.actors import Worker, execute, submit_tasks
from tests.scale.filling import fill, fill_due

FINISHED, FUTURE, DUE, LEASES = 880_000, 90_000, 25_000, 5_000
QUEUES, ENDED, RECORDS, MESSAGES, PROCESSES = 40, 3_000, 50_000, 100_000, 10


def fill_ledger(worker: Worker) -> None:
    """Add a million tasks in every state, most of them in one queue, and everything that comes with them."""
    fill(worker, finished=FINISHED, future=FUTURE, leases=LEASES)
    [integrated] = submit_tasks()
    [external] = submit_tasks(queue="external")
    for like in (integrated, external):
        fill_due(like=like, count=DUE // 2)
    for statement in (OTHER_QUEUES, ANNOUNCE, EVENTS, SESSIONS, ACTIONS, TARGETS, QUARANTINED, ROLLUPS):
        execute(statement, PARAMETERS | {"session": worker.session_id, "external": external})
    execute(
        "update ledgence_task set outcome = 'cancelled' where outcome = 'failed' and abs(hashtext(id::text)) % 10 = 0"
    )
    execute("vacuum analyze")


def some_task(outcome: str) -> UUID:
    [(task,)] = execute("select id from ledgence_task where outcome = %s order by id desc limit 1", [outcome])
    return UUID(str(task))


PARAMETERS = {
    "queues": QUEUES,
    "ended": ENDED,
    "records": RECORDS,
    "messages": MESSAGES,
    "processes": PROCESSES,
}

OTHER_QUEUES = """
insert into ledgence_queue (tenant, namespace, name, mode, paused_by, pause_reason)
select tenant, namespace, 'queue-' || n, 'integrated', '', '' from ledgence_queue, generate_series(1, %(queues)s) n
where name = 'default'
"""

# A third of them is fine, a third refused, a third announced twice.
ANNOUNCE = """
with route as (
    update ledgence_queue set mode = 'external', destination = 'arn:x' where name = 'external' returning id
)
update ledgence_deliveryintent i
set publication_id = gen_random_uuid(), next_publish_at = now() + interval '30 s', publications = 1 + n.part,
    refusals = case n.part when 1 then 1 else 0 end, confirmed_at = case n.part when 2 then now() end
from route, (select task_id, abs(hashtext(task_id::text)) %% 3 as part from ledgence_deliveryintent) n
where i.queue_id = route.id and n.task_id = i.task_id
"""

EVENTS = """
insert into ledgence_deliveryevent (task_id, generation, kind, epoch, happened_at)
select task_id, generation, 'uncertain', 1, now() from ledgence_deliveryintent, generate_series(1, 2)
"""

# Of the last hundred the workers are alive.
SESSIONS = """
insert into ledgence_workersession (id, tenant, namespace, name, host, pid, version, concurrency, queues,
    exclude_queues, programs, opened_at, extended_at, closed_at, expires_at)
select gen_random_uuid(), tenant, namespace, name, host, n, version, concurrency, queues, exclude_queues, programs,
       now() - n * interval '1 h', now(), case when n > 100 then now() - n * interval '1 h' end, now() + interval '1 d'
from ledgence_workersession, generate_series(1, %(ended)s + 100) n where id = %(session)s
"""

ACTIONS = """
insert into ledgence_operatoraction (id, kind, actor_name, reason, acted_at, matched, changed)
select gen_random_uuid(), (array['requeue', 'cancel', 'pause'])[1 + n %% 3], 'op', 'because',
       now() - n * interval '1 min', 1, 1
from generate_series(1, %(records)s) n
"""

TARGETS = """
insert into ledgence_operatoractiontarget (action_id, target, answer)
select a.id, t.id::text, 'requeued'
from (select id, row_number() over () as place from ledgence_operatoraction) a
join (select id, row_number() over () as place from ledgence_task limit %(records)s) t using (place)
"""

QUARANTINED = """
insert into ledgence_quarantinedmessage (queue_id, session_id, message_id, reason, detail, body, received_at)
select i.queue_id, %(session)s, 'message-' || n, (array['malformed', 'foreign'])[1 + n %% 2], 'no JSON',
       repeat('x', 2000), now() - n * interval '1 min'
from ledgence_deliveryintent i, generate_series(1, %(messages)s) n where i.task_id = %(external)s
"""

# A day, in which each process did something for each of five queues.
ROLLUPS = """
insert into ledgence_rollup (minute, queue_id, claimed, succeeded, failed, retried, cancelled, waits)
select date_trunc('minute', now()) - n * interval '1 min', q.id, 100, 90, 5, 5, 0,
       '{0,10,50,20,10,5,5,0,0,0,0,0,0,0}'
from generate_series(1, 1440) n, generate_series(1, %(processes)s) p,
     (select id from ledgence_queue order by id limit 5) q
"""

CANCELLED = """
update ledgence_task set outcome = 'cancelled' where outcome = 'failed' and abs(hashtext(id::text)) % 10 = 0
"""
