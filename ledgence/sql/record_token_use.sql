-- Records that a token is in use, unless another process has or does just now. Locks: the token (no key update); skips
-- it when it is locked. Index: primary key. Not the ORM: an update that waits for nobody.
update ledgence_apitoken
set last_used_at = clock_timestamp()
where id = (
    select id from ledgence_apitoken
    where id = %(token)s
        and (last_used_at is null or last_used_at <= clock_timestamp() - make_interval(secs => %(record_seconds)s))
    for no key update skip locked
)
