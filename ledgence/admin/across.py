"""Acting on all rows that a list's filter finds: up to a thousand at once, thousands in chunks by housekeeping."""

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.admin.confirmation import ConfirmedAction, make_operator, record_of, tell
from ledgence.admin.forms import ConfirmationForm
from ledgence.admin.scope import Scope, read_count, scope_of
from ledgence.admin.selection import Word, survey
from ledgence.conf import get_settings
from ledgence.operations.actions import TARGETS_MAX
from ledgence.operations.bulk import PARTS, ROWS_MAX, begin_bulk
from ledgence_worker.errors import Busy, Conflict, InvalidInput

if TYPE_CHECKING:
    from ledgence.admin.base import LedgerAdmin


def ask_about_all(action: ConfirmedAction, page: "LedgerAdmin", request: HttpRequest) -> HttpResponse | None:
    """Show the confirmation for all rows of the list as its address narrows it. None, and a message, if that cannot be.

    Raises PermissionDenied for who may not act on all rows at once.
    """
    _require(action, page, request)
    scope = scope_of(page, request.GET)
    ids = scope.find(page, request, ROWS_MAX + 1)
    if not ids:
        page.message_user(request, _("Nothing matches; nothing was changed."), messages.WARNING)
        return None
    back, words = f"?{scope.filter}", scope.tell(page, request)
    if len(ids) <= TARGETS_MAX:
        return action.ask(page, request, list(map(str, ids)), back=back, words=words)
    if action.kind not in PARTS:
        page.message_user(request, _too_many(), messages.ERROR)
        return None
    is_capped = len(ids) > ROWS_MAX
    ids = ids[:ROWS_MAX]
    initial = {
        "scope": scope.filter,
        "bound": str(max(ids)),
        "count": len(ids),
        "action_id": uuid4(),
        "back": back,
    }
    form = action.form(initial=initial, rows=len(ids))
    look = survey(ids, action.subject, action.judge)
    return action.render(page, request, form, look, words=words, notes=_notes(is_capped=is_capped))


def act_on_all(action: ConfirmedAction, page: "LedgerAdmin", request: HttpRequest) -> HttpResponse:
    """Begin the action on the rows that match now, at most as many as were confirmed. Raises PermissionDenied."""
    _require(action, page, request)
    if action.kind not in PARTS:
        raise BadRequest("The action is not one for thousands of rows.")
    count = read_count(request.POST["count"])
    scope = Scope(
        filter=scope_of(page, QueryDict(request.POST.get("scope", ""))).filter,
        bound=action.subject.parse_all([request.POST.get("bound", "")])[0],
    )
    form = action.form(request.POST, rows=count)
    ids = scope.find(page, request, count)
    words = scope.tell(page, request)
    if form.is_valid():
        kept = {"list": page.opts.model_name, "filter": scope.filter, "words": words, "bound": str(scope.bound)}
        try:
            begin_bulk(
                action.kind,
                ids,
                operator := make_operator(request, form),
                scope=kept,
                parameters=form.choices or None,
                using=get_settings().database,
            )
        except (Busy, Conflict, InvalidInput) as error:
            form.add_error(None, str(error))
        else:
            return _begun(action, page, request, form, operator.action_id)
    look = survey(ids, action.subject, action.judge)
    return action.render(page, request, form, look, words=words, notes=_notes(is_capped=False))


def _require(action: ConfirmedAction, page: "LedgerAdmin", request: HttpRequest) -> None:
    if not (action.is_allowed(page, request) and page.has_bulk_permission(request)):
        raise PermissionDenied


def _begun(
    action: ConfirmedAction, page: "LedgerAdmin", request: HttpRequest, form: ConfirmationForm, action_id: UUID
) -> HttpResponse:
    """Go to the record, which shows the progress, or back to the list for who may not see records."""
    text = _("%(action)s: begun. Housekeeping applies it in the background.") % {"action": action.label}
    tell(page, request, text, action_id, messages.SUCCESS)
    if request.user.has_perm("ledgence.view_operatoraction"):
        return HttpResponseRedirect(record_of(page, action_id))
    return HttpResponseRedirect(action.back(page, request, form.cleaned_data["back"], {}))


def _notes(*, is_capped: bool) -> list[Word]:
    notes: list[Word] = [
        _("The filter is evaluated again when you confirm. Rows that are newer than these are left out."),
        _("These are too many for one step: housekeeping applies the action in chunks. You can stop it on its page."),
    ]
    if is_capped:
        notes.append(
            _("More than %(count)d match, and no action takes more: these are the first ones of the list. Repeat it.")
            % {"count": ROWS_MAX}
        )
    return notes


def _too_many() -> str:
    return ngettext(
        "This action takes at most %(count)d row. Narrow the list, or act in several steps; nothing was changed.",
        "This action takes at most %(count)d rows. Narrow the list, or act in several steps; nothing was changed.",
        TARGETS_MAX,
    ) % {"count": TARGETS_MAX}
