"""API tokens as tests make, ask and revoke them, and the process's clock as what remembers them reads it."""

from typing import Any

import pytest

from ledgence import tokens
from ledgence.models import ApiToken
from ledgence.operations.tokens import revoke_by_operator
from ledgence.token_cache import TokenCache
from ledgence.tokens import Role, Scope, authenticate, issue
from ledgence_worker.errors import Unauthenticated
from tests.ledger.actors import USING, operator


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


def refusal_of(header: str | None) -> str:
    with pytest.raises(Unauthenticated) as caught:
        authenticate(header, using=USING)
    assert caught.value.__cause__ is None
    return str(caught.value)


def revoke(token: int, *, using: str = USING) -> None:
    """Revoke a token that is valid."""
    assert list(revoke_by_operator([token], operator(), using=using).values()) == ["revoked"]
