"""How a page acts: permission, a confirmation with a reason, one recorded operation, a message of what came of it."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import model_ngettext
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from ledgence.admin.forms import ConfirmationForm
from ledgence.admin.selection import (
    Judge,
    Look,
    Subject,
    Targets,
    Word,
    look_at,
    read_targets,
    write_targets,
)
from ledgence.conf import get_settings
from ledgence.models import OperatorAction
from ledgence.operations.actions import Answers, Operator
from ledgence.wording import visible
from ledgence_worker.errors import Busy, Conflict, InvalidInput

if TYPE_CHECKING:
    from ledgence.admin.base import LedgerAdmin

logger = logging.getLogger("ledgence.admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedAction:
    """One thing that an operator may do, and every word that the pages say about it."""

    #: In addresses, and with underscores as the name of the list action.
    slug: str
    kind: OperatorAction.Kind
    #: The page's has_<permission>_permission.
    permission: str
    subject: Subject
    label: Word
    #: What will happen, and what may happen twice; one sentence or more each.
    consequences: Sequence[Word]
    judge: Judge
    #: The operation of ledgence.operations: (rows as they were seen, operator, using=, what was chosen) to answers.
    perform: Callable[..., Answers]
    #: The answers that changed nothing, each in words.
    skipped: Mapping[str, Word]
    #: Words for answers that did change something, where one is not like the other.
    remarks: Mapping[str, Word] = field(default_factory=dict)
    #: The revision that the operator sees, where the operation compares it.
    seen: Callable[[Any], int | None] = lambda facts: None
    #: Asks for what the operation needs beside the rows.
    form: type[ConfirmationForm] = ConfirmationForm

    @property
    def name(self) -> str:
        return self.slug.replace("-", "_")

    def is_allowed(self, page: "LedgerAdmin", request: HttpRequest) -> bool:
        allowed: bool = getattr(page, f"has_{self.permission}_permission")(request)
        return allowed and page.has_view_permission(request)

    def for_lists(self) -> Any:
        """Return the action as a list offers it: it only shows the confirmation."""
        from ledgence.admin.across import ask_about_all

        def ask(page: "LedgerAdmin", request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            if request.POST.get("select_across") == "1":
                return ask_about_all(self, page, request)
            # As they were ticked: rows that left the list since are shown as not eligible, not forgotten.
            ids = request.POST.getlist(ACTION_CHECKBOX_NAME)
            return self.ask(page, request, ids, back=f"?{request.GET.urlencode()}")

        ask.__name__ = self.name
        return admin.action(ask, permissions=[self.permission], description=f"{self.label}…")

    def view(self, page: "LedgerAdmin", request: HttpRequest) -> HttpResponse:
        """Show the confirmation (GET), or act (POST). Raises PermissionDenied before it looks at anything."""
        from ledgence.admin.across import act_on_all, ask_about_all

        if not self.is_allowed(page, request):
            raise PermissionDenied
        if request.method != "POST":
            if "across" not in request.GET:
                return self.ask(page, request, request.GET.get("ids", "").split(","), back="")
            return ask_about_all(self, page, request) or HttpResponseRedirect(page.reverse("changelist"))
        if request.POST.get("count"):
            return act_on_all(self, page, request)
        targets = read_targets(request.POST.get("targets", ""), self.subject)
        form = self.form(request.POST, rows=len(targets))
        return self._act(page, request, form, targets) if form.is_valid() else self._show(page, request, form, targets)

    def ask(
        self, page: "LedgerAdmin", request: HttpRequest, ids: Sequence[str], *, back: str, words: str = ""
    ) -> HttpResponse:
        """Show the confirmation for rows that were named; ``words`` tell how they were found."""
        if not self.is_allowed(page, request):
            raise PermissionDenied
        parsed = self.subject.parse_all(ids)
        facts = self.subject.find(parsed)
        targets: Targets = {pk: self.seen(facts[pk]) if pk in facts else None for pk in map(str, parsed)}
        initial = {"targets": write_targets(targets), "action_id": uuid4(), "back": back}
        form = self.form(initial=initial, rows=len(targets))
        return self.render(page, request, form, look_at(targets, facts, self.judge), words=words, targets=targets)

    def _show(
        self, page: "LedgerAdmin", request: HttpRequest, form: ConfirmationForm, targets: Targets
    ) -> HttpResponse:
        facts = self.subject.find(self.subject.parse_all(targets))
        return self.render(page, request, form, look_at(targets, facts, self.judge), targets=targets)

    def render(
        self,
        page: "LedgerAdmin",
        request: HttpRequest,
        form: ConfirmationForm,
        look: Look,
        *,
        words: str = "",
        notes: Sequence[Word] = (),
        targets: Targets | None = None,
    ) -> HttpResponse:
        """Show the confirmation page."""
        context = {
            **page.admin_site.each_context(request),
            "title": self.label,
            "opts": page.opts,
            "action": self,
            "form": form,
            "action_url": page.reverse(self.name),
            "back_url": self.back(page, request, form["back"].value() or "", targets or {}),
            "look": look,
            "count": look.count,
            "names": model_ngettext(self.subject.model._meta, look.count),
            "sample": [(visible(words), self._address(page, request, pk)) for pk, words in look.sample],
            "words": words,
            "notes": notes,
        }
        request.current_app = page.admin_site.name
        return TemplateResponse(request, "admin/ledgence/confirmation.html", context)

    def _act(self, page: "LedgerAdmin", request: HttpRequest, form: ConfirmationForm, targets: Targets) -> HttpResponse:
        using = get_settings().database
        operator = make_operator(request, form)
        seen = dict(zip(self.subject.parse_all(targets), targets.values(), strict=True))
        try:
            answers = self.perform(seen, operator, using=using, **form.choices)
        except (Busy, Conflict, InvalidInput) as error:
            form.add_error(None, str(error))
            return self._show(page, request, form, targets)
        self._tell(page, request, operator.action_id, answers)
        return HttpResponseRedirect(self.back(page, request, form.cleaned_data["back"], targets))

    def _tell(self, page: "LedgerAdmin", request: HttpRequest, action_id: UUID, answers: Answers) -> None:
        skipped = Counter(answer for answer in answers.values() if answer in self.skipped)
        changed = len(answers) - skipped.total()
        remarks = Counter(answer for answer in answers.values() if answer in self.remarks)
        logger.info(
            "operator acted action_id=%s kind=%s changed=%s skipped=%s", action_id, self.name, changed, skipped.total()
        )
        text = _("%(action)s: changed %(changed)s%(remarks)s, skipped %(skipped)s%(why)s.") % {
            "action": self.label,
            "changed": f"{changed} {model_ngettext(self.subject.model._meta, changed)}",
            "remarks": _counted(remarks, self.remarks),
            "skipped": skipped.total(),
            "why": _counted(skipped, self.skipped),
        }
        tell(page, request, text, action_id, messages.WARNING if skipped else messages.SUCCESS)

    def _address(self, page: "LedgerAdmin", request: HttpRequest, pk: str) -> str:
        """Return the address of a row's own page, empty when this user may not see it."""
        opts = self.subject.model._meta
        if not request.user.has_perm(f"ledgence.view_{opts.model_name}"):
            return ""
        name = f"admin:{opts.app_label}_{opts.model_name}_change"
        return reverse(name, args=[pk], current_app=page.admin_site.name)

    def back(self, page: "LedgerAdmin", request: HttpRequest, back: str, targets: Targets) -> str:
        """Return where to go: the list with its filters, or the page of the one row."""
        if not back and len(targets) == 1 and (address := self._address(page, request, next(iter(targets)))):
            return address
        # Whatever the form sent, the address is the list's own.
        return page.reverse("changelist") + (back if back.startswith("?") else "")


def make_operator(request: HttpRequest, form: forms.Form) -> Operator:
    """Return who acts, and why, from a valid form that has an action_id and a reason."""
    user: Any = request.user
    return Operator(
        action_id=form.cleaned_data["action_id"],
        name=user.get_username(),
        reason=form.cleaned_data["reason"],
        # Accounts of another database cannot be referred to; the name is kept all the same.
        user_id=user.pk if user._state.db == get_settings().database else None,
    )


def tell(page: "LedgerAdmin", request: HttpRequest, text: str, action_id: UUID, level: int) -> None:
    """Leave a message with a link to the record of an action."""
    page.message_user(
        request, format_html('{} <a href="{}">{}</a>', text, record_of(page, action_id), _("See the record")), level
    )


def record_of(page: "LedgerAdmin", action_id: UUID) -> str:
    """Return the address of an action's record."""
    return reverse("admin:ledgence_operatoraction_change", args=[action_id], current_app=page.admin_site.name)


def _counted(counts: Mapping[str, int], words: Mapping[str, Word]) -> str:
    """Put counted answers into words: " (2 moved on, 1 no longer exists)", empty without any."""
    # In the order of the words: the rows' ids, and so their answers, come in any.
    parts = ", ".join(f"{counts[answer]} {word}" for answer, word in words.items() if answer in counts)
    return f" ({parts})" if parts else ""
