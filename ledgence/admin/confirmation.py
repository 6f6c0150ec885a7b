"""How a page acts: permission, a confirmation with a reason, one recorded operation, a message of what came of it."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import model_ngettext
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ledgence.conf import get_settings
from ledgence.operations.actions import TARGETS_MAX, Answers, Operator
from ledgence_worker.errors import Busy, Conflict, InvalidInput

if TYPE_CHECKING:
    from ledgence.admin.base import LedgerAdmin

logger = logging.getLogger("ledgence.admin")

#: How many of the rows the confirmation names.
SAMPLE = 10
REASON_LENGTHS = (5, 1000)

type Word = str | Promise
#: Ids as they stand in addresses and forms, each with the revision that the operator sees.
type Targets = dict[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The kind of row that an action names: its model, how its ids are read, and how its rows are looked at.

    What ``find`` tells of a row is its own: only the judges of the same subject read it.
    """

    model: type[Model]
    parse: Callable[[str], Any]
    find: Callable[[Sequence[Any]], Mapping[str, Any]]


def reason_field(*, has_focus: bool = True) -> forms.CharField:
    """Return the field in which an operator says why."""
    return forms.CharField(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Kept in the record of this action. At least 5 characters."),
        min_length=REASON_LENGTHS[0],
        max_length=REASON_LENGTHS[1],
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80, "autofocus": has_focus, "class": "vLargeTextField"}),
    )


class ConfirmationForm(forms.Form):
    """What the confirmation page sends back: the rows as the operator saw them, and why."""

    targets = forms.CharField(widget=forms.HiddenInput)
    action_id = forms.UUIDField(widget=forms.HiddenInput)
    # The list's filters, to go back to; empty: back to the row's own page.
    back = forms.CharField(widget=forms.HiddenInput, required=False)
    reason = reason_field()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedAction:
    """One thing that an operator may do, and every word that the pages say about it."""

    #: In addresses, and with underscores as the name of the list action.
    slug: str
    #: The page's has_<permission>_permission.
    permission: str
    subject: Subject
    label: Word
    #: What will happen, and what may happen twice; one sentence or more each.
    consequences: Sequence[Word]
    #: Tells why a row is not eligible, or None when it is.
    judge: Callable[[Any], Word | None]
    #: The operation of ledgence.operations: (rows as they were seen, operator, using=) to answers.
    perform: Callable[..., Answers]
    #: The answers that changed nothing, each in words.
    skipped: Mapping[str, Word]
    #: Words for answers that did change something, where one is not like the other.
    remarks: Mapping[str, Word] = field(default_factory=dict)
    #: The revision that the operator sees, where the operation compares it.
    seen: Callable[[Any], int | None] = lambda facts: None

    @property
    def name(self) -> str:
        return self.slug.replace("-", "_")

    def is_allowed(self, page: "LedgerAdmin", request: HttpRequest) -> bool:
        allowed: bool = getattr(page, f"has_{self.permission}_permission")(request)
        return allowed and page.has_view_permission(request)

    def for_lists(self) -> Any:
        """Return the action as a list offers it: it only shows the confirmation."""

        def ask(page: "LedgerAdmin", request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
            if request.POST.get("select_across") == "1":
                ids: Iterable[Any] = rows.values_list("pk", flat=True)[: TARGETS_MAX + 1]
            else:
                # As they were ticked: rows that left the list since are shown as not eligible, not forgotten.
                ids = request.POST.getlist(ACTION_CHECKBOX_NAME)
            targets = [str(pk) for pk in ids]
            if len(targets) > TARGETS_MAX:
                page.message_user(request, _too_many(), messages.ERROR)
                return None
            return self._ask(page, request, targets, back=f"?{request.GET.urlencode()}")

        ask.__name__ = self.name
        return admin.action(ask, permissions=[self.permission], description=f"{self.label}…")

    def view(self, page: "LedgerAdmin", request: HttpRequest) -> HttpResponse:
        """Show the confirmation (GET), or act (POST). Raises PermissionDenied before it looks at anything."""
        if not self.is_allowed(page, request):
            raise PermissionDenied
        if request.method != "POST":
            return self._ask(page, request, request.GET.get("ids", "").split(","), back="")
        form = ConfirmationForm(request.POST)
        form.is_valid()
        targets = self._normalise(_read_targets(form.cleaned_data.get("targets", "")))
        return self._act(page, request, form, targets) if form.is_valid() else self._show(page, request, form, targets)

    def _parse(self, ids: Iterable[str]) -> list[Any]:
        try:
            parsed = [self.subject.parse(pk) for pk in ids]
        except ValueError:
            raise BadRequest(f"{self.slug}: an id is not valid.") from None
        if not 0 < len(parsed) <= TARGETS_MAX:
            raise BadRequest(f"{self.slug}: {len(parsed)} rows; an action takes 1 to {TARGETS_MAX}.")
        return parsed

    def _normalise(self, targets: Targets) -> Targets:
        return dict(zip(map(str, self._parse(targets)), targets.values(), strict=True))

    def _ask(self, page: "LedgerAdmin", request: HttpRequest, ids: Sequence[str], *, back: str) -> HttpResponse:
        if not self.is_allowed(page, request):
            raise PermissionDenied
        parsed = self._parse(ids)
        facts = self.subject.find(parsed)
        targets: Targets = {pk: self.seen(facts[pk]) if pk in facts else None for pk in map(str, parsed)}
        form = ConfirmationForm(
            initial={"targets": _write_targets(targets), "action_id": uuid4(), "back": back},
        )
        return self._show(page, request, form, targets, facts, back=back)

    def _show(
        self,
        page: "LedgerAdmin",
        request: HttpRequest,
        form: ConfirmationForm,
        targets: Targets,
        facts: Mapping[str, Any] | None = None,
        *,
        back: str | None = None,
    ) -> HttpResponse:
        if facts is None:
            facts = self.subject.find(self._parse(targets))
        back = form["back"].value() or "" if back is None else back
        gone = _("no longer exists")
        verdicts = {pk: self.judge(facts[pk]) if pk in facts else gone for pk in targets}
        eligible = [pk for pk, why in verdicts.items() if why is None]
        context = {
            **page.admin_site.each_context(request),
            "title": self.label,
            "opts": page.opts,
            "action": self,
            "form": form,
            "action_url": page.reverse(self.name),
            "back_url": self._back(page, request, back, targets),
            "count": len(targets),
            "eligible_count": len(eligible),
            "names": model_ngettext(self.subject.model._meta, len(targets)),
            "sample": [(pk, self._address(page, request, pk)) for pk in eligible[:SAMPLE]],
            "left_out": len(eligible) - SAMPLE,
            "ineligible": Counter(str(why) for why in verdicts.values() if why is not None).most_common(),
        }
        request.current_app = page.admin_site.name
        return TemplateResponse(request, "admin/ledgence/confirmation.html", context)

    def _act(self, page: "LedgerAdmin", request: HttpRequest, form: ConfirmationForm, targets: Targets) -> HttpResponse:
        using = get_settings().database
        operator = make_operator(request, form)
        seen = dict(zip(self._parse(targets), targets.values(), strict=True))
        try:
            answers = self.perform(seen, operator, using=using)
        except (Busy, Conflict, InvalidInput) as error:
            form.add_error(None, str(error))
            return self._show(page, request, form, targets)
        self._tell(page, request, operator.action_id, answers)
        return HttpResponseRedirect(self._back(page, request, form.cleaned_data["back"], targets))

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
        record = reverse("admin:ledgence_operatoraction_change", args=[action_id], current_app=page.admin_site.name)
        level = messages.WARNING if skipped else messages.SUCCESS
        page.message_user(request, format_html('{} <a href="{}">{}</a>', text, record, _("See the record")), level)

    def _address(self, page: "LedgerAdmin", request: HttpRequest, pk: str) -> str:
        """Return the address of a row's own page, empty when this user may not see it."""
        opts = self.subject.model._meta
        if not request.user.has_perm(f"ledgence.view_{opts.model_name}"):
            return ""
        name = f"admin:{opts.app_label}_{opts.model_name}_change"
        return reverse(name, args=[pk], current_app=page.admin_site.name)

    def _back(self, page: "LedgerAdmin", request: HttpRequest, back: str, targets: Targets) -> str:
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


def _counted(counts: Mapping[str, int], words: Mapping[str, Word]) -> str:
    """Put counted answers into words: " (2 moved on, 1 no longer exists)", empty without any."""
    parts = ", ".join(f"{count} {words[answer]}" for answer, count in counts.items())
    return f" ({parts})" if parts else ""


def _too_many() -> str:
    return ngettext(
        "An action takes at most %(count)d row. Narrow the list, or act in several steps; nothing was changed.",
        "An action takes at most %(count)d rows. Narrow the list, or act in several steps; nothing was changed.",
        TARGETS_MAX,
    ) % {"count": TARGETS_MAX}


def _write_targets(targets: Targets) -> str:
    return ",".join(pk if revision is None else f"{pk}:{revision}" for pk, revision in targets.items())


def _read_targets(text: str) -> Targets:
    """Read what _write_targets wrote. Raises BadRequest."""
    targets: Targets = {}
    for part in text.split(","):
        pk, _separator, revision = part.partition(":")
        if revision and not (revision.isascii() and revision.isdecimal() and len(revision) < 10):
            raise BadRequest("A revision is not a number.")
        targets[pk] = int(revision) if revision else None
    return targets
