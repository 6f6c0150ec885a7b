"""What operators do to API tokens: issue and revoke. Each is recorded with who and why, and never with the secret."""

import logging
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

from django.views.decorators.debug import sensitive_variables

from ledgence import sql
from ledgence.models import ApiToken, OperatorAction, Role
from ledgence.operations.actions import Answers, Operator, record
from ledgence.tokens import issue
from ledgence_worker.errors import Conflict

logger = logging.getLogger("ledgence.tokens")

Kind = OperatorAction.Kind


@sensitive_variables()
def issue_by_operator(
    operator: Operator,
    *,
    name: str,
    roles: Iterable[Role | str],
    tenant: str,
    namespace: str,
    queues: Iterable[str] = (),
    expires_at: datetime | None = None,
    using: str,
) -> tuple[ApiToken, str]:
    """Issue a token as ``ledgence.tokens.issue`` does, and return its row and its text.

    An action id issues one token: the text is kept nowhere, so that a repeat cannot give it again and raises Conflict.
    Raises InvalidInput and Busy too; nothing was issued then.
    """
    public_id = sha256(operator.action_id.bytes).hexdigest()[:16]
    issued: list[tuple[ApiToken, str]] = []

    def decide() -> Answers:
        issued.append(
            issue(
                name=name,
                roles=roles,
                tenant=tenant,
                namespace=namespace,
                queues=queues,
                expires_at=expires_at,
                public_id=public_id,
                using=using,
            )
        )
        return {public_id: "issued"}

    record(operator, Kind.ISSUE_TOKEN, {public_id: None}, decide, using=using)
    if not issued:
        raise Conflict(
            f"Action {operator.action_id} has issued token {public_id} before; its text was shown then and is kept "
            f"nowhere. If it is lost, revoke that token and issue another one with a new action."
        )
    return issued[0]


def revoke_by_operator(tokens: Iterable[int], operator: Operator, *, using: str) -> Answers:
    """Revoke tokens by their ids. Answers by public id: revoked, already (it stays as it was); ``#id``: not_found."""
    ids = sorted(set(tokens))
    found = dict(ApiToken.objects.using(using).filter(pk__in=ids).values_list("pk", "public_id"))
    targets = [found.get(pk, f"#{pk}") for pk in ids]

    def decide() -> Answers:
        revoked = {row[0] for row in sql.run("revoke_tokens", using, {"public_ids": sorted(found.values())})}
        answers = dict.fromkeys(targets, "not_found") | dict.fromkeys(found.values(), "already")
        for public_id in sorted(revoked):
            logger.info("token revoked public_id=%s", public_id)
        return answers | dict.fromkeys(revoked, "revoked")

    return record(operator, Kind.REVOKE_TOKEN, dict.fromkeys(targets), decide, using=using)
