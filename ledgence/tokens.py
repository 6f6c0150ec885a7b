"""API tokens: how they are issued and revoked, and how a request's header becomes the scope that it may act in."""

import hmac
import logging
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.db import Error
from django.views.decorators.debug import sensitive_variables

from ledgence import sql
from ledgence.models import ApiToken, Role
from ledgence.token_cache import TokenCache
from ledgence.transitions import transition
from ledgence_worker.errors import Busy, Forbidden, InvalidInput, Unauthenticated
from ledgence_worker.identifiers import check_identifier

__all__ = ["Role", "Scope", "authenticate", "issue"]

logger = logging.getLogger("ledgence.tokens")

#: How many queues one token may be limited to.
QUEUES_MAX = 100
#: No header that is longer can be valid.
HEADER_MAX = 128
#: The last year in which a token may expire.
YEAR_MAX = 9998
#: How often the use of a token is written down, at most.
RECORD_SECONDS = 60.0

PUBLIC_ID = re.compile(r"[0-9a-f]{16}")
HEADER = re.compile(rf"[Bb][Ee][Aa][Rr][Ee][Rr] +(ldg_({PUBLIC_ID.pattern})_([A-Za-z0-9_-]{{43}}))")
#: The one answer to every header that does not name a valid token: it tells nobody why.
REFUSED = "The request carries no valid API token. Send 'Authorization: Bearer TOKEN' with one that is in force."
#: What the digest of a token that is not there is compared with.
NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a request may do: the roles of its token, and the tenant, namespace and queues that it is limited to."""

    token_id: int
    #: What names the token in lists and records, and in refusals.
    public_id: str
    name: str
    roles: frozenset[Role]
    tenant: str
    namespace: str
    #: Empty: every queue of the tenant and namespace.
    queues: frozenset[str]

    def require(self, *roles: Role) -> None:
        """Go on only if the token has one of these roles. Raises Forbidden."""
        if self.roles.isdisjoint(roles):
            raise Forbidden(
                f"Token {self.public_id} ({self.name}) has {_listed(self.roles)}; this needs {' or '.join(roles)}. "
                f"Use a token that has it."
            )

    def require_queue(self, queue: str) -> None:
        """Go on only if the token may use this queue. Raises Forbidden."""
        if self.queues and queue not in self.queues:
            raise Forbidden(
                f"Token {self.public_id} ({self.name}) is limited to {_listed(self.queues)}, without {queue!r}. "
                f"Use one of them, or a token that has it."
            )


_valid = TokenCache[Scope]()


@sensitive_variables()
def issue(
    *,
    name: str,
    roles: Iterable[Role | str],
    tenant: str,
    namespace: str,
    queues: Iterable[str] = (),
    expires_at: datetime | None = None,
    public_id: str | None = None,
    using: str,
) -> tuple[ApiToken, str]:
    """Make a token and return its row and its text: ``ldg_<public id>_<secret>``. The text is kept nowhere.

    ``ledgence.operations.tokens`` does it with a record of who and why, and chooses the public id; otherwise that is
    random. Raises InvalidInput before anything is written: names that are no identifiers, no or unknown roles, more
    than QUEUES_MAX queues, an expiry without a time zone or not in the future by the database's clock.
    """
    secret = secrets.token_urlsafe(32)
    parameters = {
        "public_id": public_id or secrets.token_hex(8),
        "digest": _digest(secret),
        "name": check_identifier(name, what="name"),
        "roles": _check_roles(roles),
        "tenant": check_identifier(tenant, what="tenant"),
        "namespace": check_identifier(namespace, what="namespace"),
        "queues": _check_queues(queues),
        "expires_at": _check_expiry(expires_at),
    }
    rows = sql.run("issue_token", using, parameters)
    if not rows:
        raise InvalidInput(f"expires_at {expires_at} is not in the future; nothing was issued.")
    token = ApiToken.objects.using(using).get(pk=rows[0][0])
    logger.info("token issued token_id=%s public_id=%s", token.pk, token.public_id)
    return token, f"ldg_{token.public_id}_{secret}"


@sensitive_variables()
def authenticate(header: str | None, *, using: str) -> Scope:
    """Return the scope that an Authorization header (``Bearer ldg_...``) gives, by the database's clock.

    A token that was found valid is remembered by this process for a second, so that a busy worker costs no query per
    request: a token that is revoked is refused everywhere within that second, one that expires at once. Safe on any
    thread. Raises Unauthenticated, with one text for every reason; a database that cannot answer raises its own error.
    """
    # The length comes first: nothing else is worth looking at before it.
    match = HEADER.fullmatch(header) if header is not None and len(header) <= HEADER_MAX else None
    if match is None:
        raise Unauthenticated(REFUSED)
    text, public_id, secret = match.groups()
    key = (using, sha256(text.encode("ascii")).digest())
    if (scope := _valid.get(key)) is not None:
        return scope
    began = time.monotonic()
    rows = sql.run("find_token", using, {"public_id": public_id, "record_seconds": RECORD_SECONDS})
    stored = bytes(rows[0][1]) if rows else NO_DIGEST
    if not hmac.compare_digest(_digest(secret), stored):
        raise Unauthenticated(REFUSED)
    [(token_id, _, name, roles, tenant, namespace, queues, seconds_left, is_use_due)] = rows
    scope = Scope(
        token_id=token_id,
        public_id=public_id,
        name=name,
        roles=frozenset(map(Role, roles)),
        tenant=tenant,
        namespace=namespace,
        queues=frozenset(queues),
    )
    _valid.put(key, scope, since=began, seconds_left=seconds_left)
    if is_use_due:
        _record_use(token_id, using=using)
    return scope


def _record_use(token_id: int, *, using: str) -> None:
    """Write down that a token is in use; when that is not possible the next request tries again."""
    try:
        with transition(using, what=f"use of token {token_id}"):
            sql.run("record_token_use", using, {"token": token_id, "record_seconds": RECORD_SECONDS})
    except (Busy, Error) as error:
        logger.info("token use not recorded token_id=%s error=%s", token_id, type(error).__name__)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("ascii")).digest()


def _check_roles(roles: Iterable[Role | str]) -> list[str]:
    given = set(roles)
    if not given or (unknown := given - set(Role)):
        wrong = "No roles were given" if not given else f"Unknown roles: {_listed(map(str, unknown))}"
        raise InvalidInput(f"{wrong}. A token has one or more of: {', '.join(Role)}.")
    return [role.value for role in Role if role in given]


def _check_queues(queues: Iterable[str]) -> list[str]:
    if isinstance(queues, str):
        raise InvalidInput(f"queues must be several names, not the one text {queues[:40]!r}.")
    given = sorted({check_identifier(queue, what="queue") for queue in queues})
    if len(given) > QUEUES_MAX:
        raise InvalidInput(f"A token is limited to at most {QUEUES_MAX} queues, not {len(given)}.")
    return given


def _check_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is not None and expires_at.utcoffset() is None:
        raise InvalidInput(f"expires_at {expires_at} has no time zone.")
    # In another zone it would be a year that Python cannot read back.
    if expires_at is not None and expires_at.year > YEAR_MAX:
        raise InvalidInput(
            f"expires_at {expires_at} is after the year {YEAR_MAX}. Leave it out for a token without end."
        )
    return expires_at


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
