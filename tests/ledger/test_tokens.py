"""Tokens: one refusal for every reason, a cache that forgets in time, and a secret that stands nowhere."""

import hmac
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from ledgence import tokens
from ledgence.models import ApiToken
from ledgence.tokens import Role, Scope, authenticate
from ledgence_worker.errors import Forbidden, InvalidInput, LedgenceError, Unauthenticated
from tests.ledger.actors import USING, execute
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.tokens import ask, forget, make_token, refusal_of, revoke

pytestmark = pytest.mark.usefixtures("process_clock")

SOON = timedelta(days=1)


# Issuing


def test_a_token_is_issued_with_its_terms_and_gives_its_scope(db):
    row, text = make_token(roles=["work", Role.SUBMIT], queues=["b", "a", "b"])
    assert re.fullmatch(r"ldg_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", text)
    assert text.startswith(f"ldg_{row.public_id}_")
    assert (row.roles, row.queues, row.expires_at, row.last_used_at) == (["submit", "work"], ["a", "b"], None, None)
    assert ask(text) == Scope(
        token_id=row.pk,
        public_id=row.public_id,
        name="ci",
        roles=frozenset({Role.SUBMIT, Role.WORK}),
        tenant="t",
        namespace="n",
        queues=frozenset({"a", "b"}),
    )


def test_the_secret_has_256_bits_and_the_row_only_its_digest(db):
    texts = [make_token()[1] for _ in range(20)]
    secrets = [text.split("_", 2)[2] for text in texts]
    assert len(set(secrets)) == 20
    for text, secret in zip(texts, secrets, strict=True):
        # 43 characters of six bits hold 256; the last four bits of the last one alone could be told.
        assert len(secret) == 43
        assert bytes(ApiToken.objects.get(public_id=text.split("_")[1]).digest) == sha256(secret.encode()).digest()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": " ci"},
        {"name": "a\nb"},
        {"name": "ä" * 65},
        {"name": None},
        {"roles": []},
        {"roles": ["admin"]},
        {"roles": "submit"},
        {"roles": ["submit", None]},
        {"tenant": ""},
        {"namespace": "a\0b"},
        {"queues": [""]},
        {"queues": "default"},
        {"queues": ["a", 7]},
        {"queues": ["\ud800"]},
        {"queues": [f"q{n}" for n in range(tokens.QUEUES_MAX + 1)]},
        {"expires_at": datetime(2000, 1, 1, tzinfo=UTC)},
        {"expires_at": datetime(2999, 1, 1)},
        {"expires_at": datetime.max.replace(tzinfo=UTC)},
        {"expires_at": datetime(1, 1, 1, tzinfo=UTC)},
    ],
    ids=repr,
)
def test_bad_terms_are_refused_and_nothing_is_written(wrong, db):
    with pytest.raises(InvalidInput):
        make_token(**wrong)
    assert not ApiToken.objects.exists()


def test_an_expiry_at_this_very_moment_is_refused(clock: FrozenClock):
    with pytest.raises(InvalidInput, match="not in the future"):
        make_token(expires_at=clock.now)
    row, _ = make_token(expires_at=clock.now + MICROSECOND)
    assert (row.created_at, row.expires_at) == (clock.now, clock.now + MICROSECOND)


ILLEGAL = [
    ("ledgence_token_roles", "update ledgence_apitoken set roles = '{}'"),
    ("ledgence_token_roles", "update ledgence_apitoken set roles = '{submit,admin}'"),
    ("ledgence_token_roles", "update ledgence_apitoken set roles = array[null]"),
    ("ledgence_token_digest", "update ledgence_apitoken set digest = 'short'"),
    ("ledgence_token_expiry", "update ledgence_apitoken set expires_at = created_at"),
    (
        "ledgence_token_public_id",
        "insert into ledgence_apitoken (public_id, digest, name, roles, tenant, namespace, queues, created_at) "
        "select public_id, digest, name, roles, tenant, namespace, queues, created_at from ledgence_apitoken",
    ),
]


@pytest.mark.parametrize(("constraint", "statement"), ILLEGAL)
def test_the_database_refuses_a_token_that_makes_no_sense(constraint, statement, db):
    make_token()
    with pytest.raises(IntegrityError, match=constraint):
        execute(statement)


# Refusing


def test_every_reason_of_refusal_gives_the_same_text(clock: FrozenClock):
    _, text = make_token()
    revoked, revoked_text = make_token()
    revoke(revoked.pk)
    _, over = make_token(expires_at=clock.now + MICROSECOND)
    clock.advance(microseconds=1)
    prefix, public_id, secret = text.split("_", 2)
    other = "A" if secret[0] != "A" else "B"
    headers = [
        None,
        "",
        "Bearer",
        "Bearer ",
        text,
        f"Basic {text}",
        f"Bearer{text}",
        f"Bearer\t{text}",
        f" Bearer {text}",
        f"Bearer {text} ",
        f"Bearer {text}\n",
        f"Bearer {text}, Bearer {text}",
        f"Bearer {text}=",
        f"Bearer {text[:-1]}",
        f"Bearer {text.upper()}",
        f"Bearer {prefix}_{public_id}",
        f"Bearer {prefix}_{public_id}_",
        f"Bearer {prefix}_{public_id}_{other}{secret[1:]}",
        f"Bearer {prefix}_{'0' * 16}_{secret}",
        f"Bearer {prefix}_{public_id}_{sha256(secret.encode()).hexdigest()[:43]}",
        f"Bearer {text[:-1]}ä",
        f"Bearer {text[:-1]}\ud800",
        f"Bearer {text[:-1]}\0",
        # Digits of another script, which int() and \d would take.
        f"Bearer {prefix}_{'٣' * 16}_{secret}",
        f"Bearer {' ' * 100_000}{text}",
        f"Bearer {text}" + "A" * 1_000_000,
        f"Bearer {revoked_text}",
        f"Bearer {over}",
    ]
    assert {refusal_of(header) for header in headers} == {tokens.REFUSED}
    assert ask(text).name == "ci"


def test_the_last_character_has_one_valid_spelling(db):
    """Base64 spends 258 bits on 256: the digest is that of the text, so no second spelling is valid."""
    _, text = make_token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    valid = []
    for last in alphabet:
        try:
            ask(text[:-1] + last)
        except Unauthenticated:
            continue
        valid.append(last)
    assert valid == [text[-1]]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_scheme_is_read_in_any_case(scheme, db):
    _, text = make_token()
    assert authenticate(f"{scheme} {text}", using=USING).name == "ci"


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer x", "Bearer ldg_0123456789abcdef_" + "ä" * 43, "Bearer ldg_" + "a" * 1_000_000],
    ids=["none", "empty", "malformed", "non-ascii", "oversized"],
)
def test_what_cannot_be_a_token_does_not_reach_the_database(header, db):
    with CaptureQueriesContext(connection) as queries:
        refusal_of(header)
    assert queries.captured_queries == []


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_digests_are_compared_as_bytes_in_constant_time(is_known, db, monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[object, object]] = []

    def compare(a: Any, b: Any) -> bool:
        compared.append((a, b))
        return compare_digest(a, b)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    _, text = make_token()
    refusal_of(f"Bearer {text[:-43] if is_known else 'ldg_' + '0' * 16 + '_'}{'A' * 43}")
    [(given, stored)] = compared
    assert type(given) is type(stored) is bytes
    assert len(given) == len(stored) == 32


def test_a_token_is_over_at_equality(clock: FrozenClock):
    _, text = make_token(expires_at=clock.now + SOON)
    clock.advance(days=1, microseconds=-1)
    assert ask(text).name == "ci"
    forget()
    clock.advance(microseconds=1)
    assert refusal_of(f"Bearer {text}") == tokens.REFUSED


def test_a_database_that_fails_raises_its_own_error(db):
    def fail(execute, sql, params, many, context):
        raise DatabaseError("gone")

    _, text = make_token()
    with connection.execute_wrapper(fail), pytest.raises(DatabaseError, match="gone"):
        ask(text)


# The last use


def last_use_of(row: ApiToken) -> datetime | None:
    return ApiToken.objects.get(pk=row.pk).last_used_at


def test_the_last_use_is_written_once_a_minute(clock: FrozenClock):
    row, text = make_token()
    first = clock.now
    ask(text)
    assert last_use_of(row) == first
    clock.advance(seconds=tokens.RECORD_SECONDS, microseconds=-1)
    forget()
    ask(text)
    assert last_use_of(row) == first
    clock.advance(microseconds=1)
    forget()
    ask(text)
    assert last_use_of(row) == clock.now


def test_a_refused_token_leaves_no_use(db):
    row, text = make_token()
    refusal_of(f"Bearer {text[:-43]}{'A' * 43}")
    assert last_use_of(row) is None


def test_a_use_that_cannot_be_written_harms_nobody(db, caplog: pytest.LogCaptureFixture):
    def fail(execute, sql, params, many, context):
        if "last_used_at = clock_timestamp()" in sql:
            # In the database, so that the transaction around would be lost with it.
            return execute("select 1 / 0", None, many, context)
        return execute(sql, params, many, context)

    row, text = make_token()
    with caplog.at_level(logging.INFO, "ledgence.tokens"), connection.execute_wrapper(fail), transaction.atomic():
        assert ask(text).token_id == row.pk
        assert last_use_of(row) is None
    assert f"token use not recorded token_id={row.pk} error=DataError" in caplog.messages


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[ThreadPoolExecutor]:
    """A thread with a connection of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool
        pool.submit(lambda: connection.close()).result(10)


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_is_skipped_and_not_waited_for(elsewhere: ThreadPoolExecutor):
    row, text = make_token()
    with transaction.atomic():
        execute("select 1 from ledgence_apitoken for update")
        assert elsewhere.submit(ask, text).result(10).token_id == row.pk
    assert last_use_of(row) is None
    forget()
    ask(text)
    assert last_use_of(row) is not None


@pytest.mark.django_db(transaction=True)
def test_many_threads_write_one_use():
    row, text = make_token()
    start = threading.Barrier(6)

    def use(_: int) -> int:
        start.wait(10)
        try:
            return ask(text).token_id
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(use, range(6))) == {row.pk}
    first = last_use_of(row)
    forget()
    ask(text)
    assert first is not None and last_use_of(row) == first


# The scope


PUBLIC_ID = "6f1c0d52a7e94b38"


def scope_of(*roles: Role, queues: tuple[str, ...] = ()) -> Scope:
    return Scope(
        token_id=7,
        public_id=PUBLIC_ID,
        name="ci",
        roles=frozenset(roles),
        tenant="t",
        namespace="n",
        queues=frozenset(queues),
    )


@pytest.mark.parametrize("needed", Role)
@pytest.mark.parametrize("given", Role)
def test_a_role_allows_itself_and_nothing_else(given: Role, needed: Role):
    scope = scope_of(given)
    scope.require(given, needed)
    if given is needed:
        scope.require(needed)
        return
    with pytest.raises(Forbidden, match=f"^Token {PUBLIC_ID} \\(ci\\) has {given}; this needs {needed}\\. "):
        scope.require(needed)


def test_nothing_needed_is_nothing_allowed():
    with pytest.raises(Forbidden):
        scope_of(*Role).require()


def test_queues_limit_a_scope_and_no_queues_do_not():
    scope_of(Role.WORK).require_queue("anything")
    limited = scope_of(Role.WORK, queues=("b", "a"))
    limited.require_queue("a")
    with pytest.raises(Forbidden, match=f"^Token {PUBLIC_ID} \\(ci\\) is limited to a, b, without 'A'"):
        limited.require_queue("A")


def test_both_refusals_are_errors_of_ledgence():
    assert issubclass(Unauthenticated, LedgenceError) and issubclass(Forbidden, LedgenceError)
    assert not issubclass(Forbidden, Unauthenticated)


# The secret


def test_the_secret_stands_in_no_log_and_no_table(db, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        row, text = make_token()
        ask(text)
        refusal_of(f"Bearer {text}x")
        revoke(row.pk)
        forget()
        refusal_of(f"Bearer {text}")
    secret = text.split("_", 2)[2]
    mine = [record for record in caplog.records if record.name != "django.db.backends"]
    assert len(mine) >= 2
    assert not any(secret in record.getMessage() for record in caplog.records)
    [(stored,)] = execute("select to_jsonb(t)::text from ledgence_apitoken t")
    assert row.public_id in stored and secret not in stored
    assert secret.encode().hex() not in stored
