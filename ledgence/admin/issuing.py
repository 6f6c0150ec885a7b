"""How a token is issued on a page: a form with a reason, and its text in the answer to that form, nowhere else."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from ledgence.admin.confirmation import make_operator
from ledgence.admin.forms import moment_field, reason_field
from ledgence.conf import get_settings
from ledgence.models import Role
from ledgence.operations.tokens import issue_by_operator
from ledgence_worker.errors import Busy, Conflict, InvalidInput
from ledgence_worker.limits import IDENTIFIER_BYTES

if TYPE_CHECKING:
    from ledgence.admin.base import LedgerAdmin

ROLES = {
    Role.SUBMIT: gettext_lazy("submit: hand in tasks and follow them"),
    Role.WORK: gettext_lazy("work: be a worker"),
    Role.OPERATE: gettext_lazy("operate: look at all tasks of the scope and act on them"),
}


class IssueForm(forms.Form):
    """The terms of a new token, and why it is issued."""

    action_id = forms.UUIDField(widget=forms.HiddenInput)
    name = forms.CharField(
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Who or what will use it."),
        max_length=IDENTIFIER_BYTES,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )
    roles = forms.MultipleChoiceField(
        label=gettext_lazy("Roles"),
        choices=[(role.value, label) for role, label in ROLES.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    tenant = forms.CharField(label=gettext_lazy("Tenant"), max_length=IDENTIFIER_BYTES)
    namespace = forms.CharField(label=gettext_lazy("Namespace"), max_length=IDENTIFIER_BYTES)
    queues = forms.CharField(
        label=gettext_lazy("Queues"),
        help_text=gettext_lazy("One per line. Empty: every queue of the tenant and namespace."),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 40}),
    )
    expires_at = moment_field(
        label=gettext_lazy("Expires at"), help_text=gettext_lazy("In the time zone of these pages. Empty: never.")
    )
    reason = reason_field(has_focus=False)

    def clean_queues(self) -> list[str]:
        """Return the names that stand there, one per line."""
        lines: list[str] = self.cleaned_data["queues"].splitlines()
        return [line.strip() for line in lines if line.strip()]


@sensitive_variables()
def issue_view(page: "LedgerAdmin", request: HttpRequest) -> HttpResponse:
    """Show the form (GET), or issue a token and show its text (POST). Raises PermissionDenied.

    The text is in the body of this one response. A message on the next page would be kept until then, in a cookie or in
    the session's row; admin's responses are not stored by caches.
    """
    if not page.has_add_permission(request):
        raise PermissionDenied
    settings = get_settings()
    if request.method != "POST":
        initial = {"action_id": uuid4(), "tenant": settings.tenant, "namespace": settings.namespace}
        return _render(page, request, form=IssueForm(initial=initial))
    form = IssueForm(request.POST)
    if not form.is_valid():
        return _render(page, request, form=form)
    terms = {field: form.cleaned_data[field] for field in form.cleaned_data.keys() - {"action_id", "reason"}}
    try:
        token, text = issue_by_operator(make_operator(request, form), **terms, using=settings.database)
    except (Busy, Conflict, InvalidInput) as error:
        form.add_error(None, str(error))
        return _render(page, request, form=form)
    return _render(page, request, token=token, text=text)


@sensitive_variables("context")
def _render(page: "LedgerAdmin", request: HttpRequest, **context: Any) -> HttpResponse:
    request.current_app = page.admin_site.name
    may_look = page.has_view_permission(request)
    context |= {
        **page.admin_site.each_context(request),
        "title": _("API token issued") if "token" in context else _("Issue an API token"),
        "opts": page.opts,
        "list_url": page.reverse("changelist") if may_look else "",
        "token_url": page.reverse("change", context["token"].pk) if may_look and "token" in context else "",
    }
    return TemplateResponse(request, "admin/ledgence/issue_token.html", context)
