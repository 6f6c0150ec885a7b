"""API tokens as a command: issued, listed and revoked, each change with a record of who and why."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.views.decorators.debug import sensitive_variables

from ledgence.conf import get_settings
from ledgence.management.operating import aligned, make_operator
from ledgence.models import ApiToken, Role
from ledgence.operations.tokens import issue_by_operator, revoke_by_operator
from ledgence_worker.errors import LedgenceError

REASON = "by manage.py ledgence_token"
TITLES = ("PUBLIC ID", "STATE", "ROLES", "TENANT", "NAMESPACE", "QUEUES", "EXPIRES", "LAST USED", "NAME")


class Command(BaseCommand):
    help = "Issue, list and revoke the tokens with which callers of the task service over HTTP show who they are."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        issue = actions.add_parser("issue", help="Issue a token. Its text is all of the standard output, this once.")
        issue.add_argument("name", help="Who or what will use it.")
        issue.add_argument("--role", action="append", choices=list(map(str, Role)), required=True, dest="roles")
        issue.add_argument("--queue", action="append", default=[], dest="queues", help="Repeat it; default: all.")
        issue.add_argument("--tenant", help="Default: that of the settings.")
        issue.add_argument("--namespace", help="Default: that of the settings.")
        expiry = issue.add_mutually_exclusive_group()
        expiry.add_argument("--expires-in", type=days, metavar="DAYS", dest="expires_at", help="Default: never.")
        expiry.add_argument("--expires-at", type=datetime.fromisoformat, metavar="ISO", help="With its time zone.")
        issue.add_argument("--reason", default=REASON, help="Kept in the record.")
        actions.add_parser("list", help="List the tokens, the newest first.")
        revoke = actions.add_parser("revoke", help="Revoke a token; requests with it are refused within a second.")
        revoke.add_argument("public_id")
        revoke.add_argument("--reason", default=REASON, help="Kept in the record.")

    def handle(self, *, action: str, **options: Any) -> None:
        using = get_settings().database
        try:
            if action == "issue":
                self._issue(options, using=using)
            elif action == "revoke":
                self._revoke(options["public_id"], options["reason"], using=using)
            else:
                self._list(using=using)
        except LedgenceError as error:
            raise CommandError(str(error)) from error

    @sensitive_variables("text")
    def _issue(self, options: dict[str, Any], *, using: str) -> None:
        terms = {field: options[field] for field in ("name", "roles", "queues", "expires_at")}
        for field in ("tenant", "namespace"):
            terms[field] = getattr(get_settings(), field) if options[field] is None else options[field]
        token, text = issue_by_operator(make_operator(options["reason"]), **terms, using=using)
        self.stdout.write(text)
        expiry = f"expires at {token.expires_at:%Y-%m-%d %H:%M:%S %Z}" if token.expires_at else "never expires"
        self._tell(f"Issued {token}, which {expiry}. Its text is not shown again.")

    def _revoke(self, public_id: str, reason: str, *, using: str) -> None:
        ids = list(ApiToken.objects.using(using).filter(public_id=public_id).values_list("pk", flat=True))
        if not ids:
            raise CommandError(f"There is no API token with the public id {public_id!r}; nothing was revoked.")
        [answer] = revoke_by_operator(ids, make_operator(reason), using=using).values()
        self._tell(f"{public_id}: {'revoked' if answer == 'revoked' else 'was revoked before'}.")

    def _list(self, *, using: str) -> None:
        tokens: Any = ApiToken.objects.using(using).with_state().defer("digest").order_by("-pk")
        rows = [TITLES, *map(describe, tokens)]
        for line in aligned(rows):
            self.stdout.write(line)

    def _tell(self, text: str) -> None:
        """Write beside the standard output, which scripts read."""
        self.stderr.write(text, style_func=str)


def days(text: str) -> datetime:
    """Return the moment so many days from now. Raises ValueError."""
    try:
        return datetime.now(UTC) + timedelta(days=float(text))
    except OverflowError as error:
        raise ValueError(text) from error


def describe(token: Any) -> tuple[str, ...]:
    """Return what the list says of a token, in the order of TITLES."""
    expires, used = (f"{at:%Y-%m-%d %H:%M}" if at else "-" for at in (token.expires_at, token.last_used_at))
    scope = (token.tenant, token.namespace, listed(token.queues) or "all")
    return (token.public_id, token.state, listed(token.roles), *scope, expires, used, token.name)


def listed(words: Iterable[str]) -> str:
    return ",".join(words)
