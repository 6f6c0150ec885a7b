-- Revokes tokens by their public ids. Locks: the tokens, in the order of their ids. Index: ledgence_token_public_id.
-- Not the ORM: the database's clock, in one statement that tells which were revoked.
update ledgence_apitoken
set revoked_at = clock_timestamp()
where id in (
        select id from ledgence_apitoken
        where public_id = any(%(public_ids)s::text[]) and revoked_at is null
        order by id
        for no key update
    )
    and revoked_at is null
returning public_id
