-- Every accepted settlement came before its lease's last expiry; late evidence never stands beside one.
select a.task_id || '.' || a.number
from ledgence_attempt a
where a.settlement is not null
  and (a.token is null or a.session_id is null or a.finished_at >= a.lease_expires_at or a.late_settlement is not null)
