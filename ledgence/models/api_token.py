"""The API token: what a caller of the task service over HTTP may do, and until when."""

from enum import StrEnum
from typing import Self

from django.db import models
from django.db.models import Case, Value, When
from django.db.models.functions import Length, Now
from django.db.models.lookups import Exact
from django.utils.translation import gettext_lazy as _

from ledgence.models.columns import ArrayColumn


class Role(StrEnum):
    """What a token allows; it may have several."""

    # Hand in tasks and follow them: their state, their result, their cancellation.
    SUBMIT = "submit"
    # Be a worker: sessions, acquisition, renewal, settlement.
    WORK = "work"
    # Look at all tasks of the scope, and act on them as an operator.
    OPERATE = "operate"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Adds whether a token is in force."""

    def with_state(self) -> Self:
        """Annotate each token's ``state`` by the database's clock; equality with the expiry is expired."""
        state = Case(
            When(revoked_at__isnull=False, then=Value(ApiToken.State.REVOKED.value)),
            When(expires_at__lte=Now(), then=Value(ApiToken.State.EXPIRED.value)),
            default=Value(ApiToken.State.ACTIVE.value),
            output_field=models.CharField(),
        )
        return self.annotate(state=state)


class ApiToken(models.Model):
    """One token. Its secret is not here, only the digest of it; a row is revoked, never changed or deleted."""

    class State(models.TextChoices):
        """Whether a token is in force; never stored."""

        ACTIVE = "active", _("active")
        EXPIRED = "expired", _("expired")
        # Whether it would have expired since or not.
        REVOKED = "revoked", _("revoked")

    id = models.AutoField(primary_key=True)
    # The part of the token's text that finds the row. It is no secret: lists and records show it.
    public_id = models.CharField(_("public id"), max_length=16, editable=False)
    # Of the secret's text, by SHA-256: 256 random bits need no salt and no slow hash.
    digest = models.BinaryField(editable=False)
    name = models.CharField(_("name"), max_length=128)
    roles = ArrayColumn("text", verbose_name=_("roles"))
    tenant = models.CharField(_("tenant"), max_length=128)
    namespace = models.CharField(_("namespace"), max_length=128)
    # Empty: every queue of the tenant and namespace.
    queues = ArrayColumn("text", verbose_name=_("queues"))
    created_at = models.DateTimeField(_("created at"))
    # NULL: never.
    expires_at = models.DateTimeField(_("expires at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    # Written at most once a minute.
    last_used_at = models.DateTimeField(_("last used at"), null=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        default_permissions = ("add", "view")
        permissions = [("revoke_apitoken", "Can revoke API tokens")]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="ledgence_token_public_id"),
            models.CheckConstraint(condition=Exact(Length("digest"), 32), name="ledgence_token_digest"),
            models.CheckConstraint(
                condition=models.Q(roles__within=["submit", "work", "operate"]) & ~models.Q(roles=[]),
                name="ledgence_token_roles",
            ),
            models.CheckConstraint(
                condition=models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=models.F("created_at")),
                name="ledgence_token_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"
