"""Tokens: one refusal for every reason, a cache that forgets in time, and a secret that stands nowhere."""

import hmac
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from subprocess import PIPE
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from ledgence import token_cache, tokens
from ledgence.models import ApiToken
from ledgence.token_cache import TokenCache
from ledgence.tokens import Role, Scope, authenticate, issue, revoke
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.errors import Forbidden, InvalidInput, LedgenceError, NotFound, Unauthenticated
from tests.ledger.actors import USING, execute
from tests.ledger.frozen import MICROSECOND, FrozenClock

SOON = timedelta(days=1)


def make_token(**options: Any) -> tuple[ApiToken, str]:
    terms: dict[str, Any] = {"name": "ci", "roles": [Role.SUBMIT], "tenant": "t", "namespace": "n", "using": USING}
    return issue(**terms | options)


def ask(text: str) -> Scope:
    return authenticate(f"Bearer {text}", using=USING)


def forget() -> None:
    """Be another process, which remembers nothing."""
    tokens._valid = TokenCache()


class Monotonic:
    """This process's clock, as the cache reads it, standing still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def process_clock(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    clock = Monotonic()
    monkeypatch.setattr(token_cache, "time", clock)
    monkeypatch.setattr(tokens, "time", clock)
    monkeypatch.setattr(tokens, "_valid", TokenCache())
    return clock


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


def refusal_of(header: str | None) -> str:
    with pytest.raises(Unauthenticated) as caught:
        authenticate(header, using=USING)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_every_reason_of_refusal_gives_the_same_text(clock: FrozenClock):
    _, text = make_token()
    revoked, revoked_text = make_token()
    revoke(revoked.pk, using=USING)
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


# Remembering


def test_a_valid_token_is_looked_up_once_a_second(process_clock: Monotonic, db):
    _, text = make_token()
    ask(text)
    with CaptureQueriesContext(connection) as queries:
        for _ in range(100):
            ask(text)
    assert queries.captured_queries == []
    process_clock.now += token_cache.SECONDS
    with CaptureQueriesContext(connection) as queries:
        ask(text)
    assert len(queries.captured_queries) == 1


def test_a_revoked_token_is_refused_within_the_second(process_clock: Monotonic, db):
    row, text = make_token()
    ask(text)
    assert revoke(row.public_id, using=USING)
    process_clock.now += token_cache.SECONDS - 0.001
    ask(text)
    process_clock.now += 0.001
    assert refusal_of(f"Bearer {text}") == tokens.REFUSED


def test_a_token_is_not_remembered_beyond_its_expiry(clock: FrozenClock, process_clock: Monotonic):
    _, text = make_token(expires_at=clock.now + timedelta(seconds=0.25))
    ask(text)
    clock.advance(seconds=0.25)
    process_clock.now += 0.2499
    ask(text)
    process_clock.now += 0.0002
    assert refusal_of(f"Bearer {text}") == tokens.REFUSED


def test_a_refusal_is_not_remembered(db):
    row, text = make_token()
    execute("update ledgence_apitoken set revoked_at = now()")
    refusal_of(f"Bearer {text}")
    execute("update ledgence_apitoken set revoked_at = null")
    assert ask(text).token_id == row.pk


def test_another_secret_of_a_remembered_token_is_refused(db):
    _, text = make_token()
    ask(text)
    refusal_of(f"Bearer {text[:-43]}{'A' * 43}")


def test_the_cache_forgets_the_oldest_and_holds_no_clear_text(process_clock: Monotonic, db):
    _, text = make_token()
    ask(text)
    assert text.split("_", 2)[2] not in repr(vars(tokens._valid))
    cache = TokenCache[int]()
    keys = [(USING, sha256(str(number).encode()).digest()) for number in range(token_cache.TOKENS_MAX + 1)]
    for number, key in enumerate(keys):
        cache.put(key, number, since=process_clock.now, seconds_left=None)
    assert [cache.get(key) for key in (keys[0], keys[1], keys[-1])] == [None, 1, token_cache.TOKENS_MAX]


def test_the_cache_serves_threads(process_clock: Monotonic):
    cache = TokenCache[int]()
    keys = [(USING, sha256(str(number).encode()).digest()) for number in range(2 * token_cache.TOKENS_MAX)]
    start = threading.Barrier(8)

    def use(offset: int) -> int:
        start.wait(10)
        wrong = 0
        for number in range(offset, offset + len(keys)):
            index = number % len(keys)
            cache.put(keys[index], index, since=process_clock.now, seconds_left=None)
            wrong += cache.get(keys[index - 1]) not in (None, (index - 1) % len(keys))
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(0, 8 * 200, 200))) == [0] * 8
    assert sum(cache.get(key) is not None for key in keys) == token_cache.TOKENS_MAX


ANOTHER_PROCESS = """
import sys, time
import django
django.setup()
from ledgence.tokens import authenticate
from ledgence_worker.errors import Unauthenticated
header = sys.stdin.readline().strip()
authenticate(header, using="default")
print("valid", flush=True)
sys.stdin.readline()
revoked_at = time.monotonic()
try:
    while time.monotonic() < revoked_at + 30:
        authenticate(header, using="default")
except Unauthenticated:
    print(time.monotonic() - revoked_at)
"""


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_another_process_hears_of_a_revocation_within_the_second(database_url: str):
    row, text = make_token()
    environment = os.environ | {
        "DATABASE_URL": database_url,
        "DEBUG": "true",
        "DJANGO_SETTINGS_MODULE": "ledgence_project.settings",
        "PYTHONPATH": os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "workers"))),
    }
    command = [sys.executable, "-c", ANOTHER_PROCESS]
    with subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"Bearer {text}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "valid\n"
        revoke(row.pk, using=USING)
        out, _ = process.communicate("revoked\n", timeout=60)
    # Generous to a slow machine: without the look after a second it would be for ever, and print nothing.
    assert 0 <= float(out) < token_cache.SECONDS + 5


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


# Revoking


def test_revoking_twice_keeps_the_first_moment(clock: FrozenClock):
    row, _ = make_token()
    first = clock.now
    assert revoke(row.pk, using=USING)
    clock.advance(seconds=5)
    assert not revoke(row.public_id, using=USING)
    assert ApiToken.objects.get().revoked_at == first


@pytest.mark.parametrize("unknown", [0, "0" * 16, ""], ids=repr)
def test_an_unknown_token_is_not_revoked(unknown, db):
    row, text = make_token()
    with pytest.raises(NotFound):
        revoke(unknown, using=USING)
    assert ask(text).token_id == row.pk


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
        revoke(row.pk, using=USING)
        forget()
        refusal_of(f"Bearer {text}")
    secret = text.split("_", 2)[2]
    mine = [record for record in caplog.records if record.name != "django.db.backends"]
    assert len(mine) >= 2
    assert not any(secret in record.getMessage() for record in caplog.records)
    [(stored,)] = execute("select to_jsonb(t)::text from ledgence_apitoken t")
    assert row.public_id in stored and secret not in stored
    assert secret.encode().hex() not in stored
