-- Counts the due work of a queue that is handed out before a given intent: of a higher priority, or of the same one and
-- due earlier. Stops at the cap plus one. Every higher priority is named, so that each is a probe of the index: the work
-- for later between them may be a million intents.
-- Locks: nothing. Index: ledgence_intent_due. Not the ORM: counts of limited branches, a comparison of rows.
select count(*) from (
    (
        select 1 from ledgence_deliveryintent
        where queue_id = %(queue)s and priority = any(array(select generate_series(%(priority)s::int + 1, 100)))
          and available_at <= statement_timestamp()
        limit %(cap)s::int + 1
    )
    union all
    (
        select 1 from ledgence_deliveryintent
        where queue_id = %(queue)s and priority = %(priority)s
          and (available_at, task_id) < (%(available_at)s::timestamptz, %(task)s::uuid)
        limit %(cap)s::int + 1
    )
    limit %(cap)s::int + 1
) ahead
