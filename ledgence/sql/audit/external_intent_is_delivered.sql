-- Every queued task of an external queue has an intent with a publication and a time for the next.
select i.task_id::text
from ledgence_deliveryintent i
join ledgence_queue q on q.id = i.queue_id
where q.mode = 'external' and (i.publication_id is null or i.next_publish_at is null)
