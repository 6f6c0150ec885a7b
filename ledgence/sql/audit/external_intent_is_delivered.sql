-- Every queued task of an external queue has an intent with a publication that is due, leased, or to be repaired in time:
-- the longest repair time is an hour, with jitter, and no publication is due before the work is.
select i.task_id::text
from ledgence_deliveryintent i
join ledgence_queue q on q.id = i.queue_id
where q.mode = 'external'
  and (i.publication_id is null or i.next_publish_at is null
       or i.next_publish_at > greatest(i.available_at, clock_timestamp()) + interval '2 hours')
