"""What a process remembers of tokens: for a second, never beyond their expiry, and nothing in clear text."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from subprocess import PIPE

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledgence import token_cache, tokens
from ledgence.token_cache import TokenCache
from ledgence_project.embedded.environment import CHECKOUT
from tests.ledger.actors import USING, execute
from tests.ledger.frozen import FrozenClock
from tests.ledger.tokens import Monotonic, ask, make_token, refusal_of, revoke

pytestmark = pytest.mark.usefixtures("process_clock")


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
    revoke(row.pk)
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
        revoke(row.pk)
        out, _ = process.communicate("revoked\n", timeout=60)
    # Generous to a slow machine: without the look after a second it would be for ever, and print nothing.
    assert 0 <= float(out) < token_cache.SECONDS + 5
