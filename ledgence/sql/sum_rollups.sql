-- Sums the counts of the last so many seconds by queue and by spans of so many seconds: a minute or several.
-- Locks: nothing. Index: ledgence_rollup_minute. Not the ORM: the database's clock, and sums of arrays' elements, of which
-- there is one for each of WAIT_BOUNDS and one more.
select date_bin(make_interval(secs => %(span)s), minute, 'epoch'), queue_id,
       sum(claimed), sum(succeeded), sum(failed), sum(retried), sum(cancelled),
       array[sum(waits[1]), sum(waits[2]), sum(waits[3]), sum(waits[4]), sum(waits[5]), sum(waits[6]), sum(waits[7]),
             sum(waits[8]), sum(waits[9]), sum(waits[10]), sum(waits[11]), sum(waits[12]), sum(waits[13]), sum(waits[14])]
from ledgence_rollup
where minute > statement_timestamp() - make_interval(secs => %(seconds)s)
group by 1, 2
order by 1, 2
