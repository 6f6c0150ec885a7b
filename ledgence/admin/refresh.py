"""How the overview comes to the browser: with the page, and again as a fragment while somebody looks at it."""

import hashlib
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ledgence.admin.minutes import WINDOWS
from ledgence.admin.overview import Overview, find_overview, share_overview

TEMPLATE = "admin/ledgence/includes/overview.html"
#: How often a page asks for the fragment anew.
PERIOD_SECONDS = 10


def window_of(request: HttpRequest) -> str:
    """Return which window the address asks for; any other word stands for the first one."""
    word = request.GET.get("window", "")
    return word if word in WINDOWS else next(iter(WINDOWS))


def first_look(request: HttpRequest) -> dict[str, Any]:
    """Return the fragment as it is now, and what the page needs to ask for the next one."""
    window = window_of(request)
    overview = find_overview(window)
    fragment = _render(request, overview)
    return {
        "fragment": fragment,
        "etag": _etag(fragment),
        "summary": summary_of(request, overview),
        "address": reverse("admin:ledgence_queue_overview", query={"window": window}),
        "seconds": PERIOD_SECONDS,
    }


def fragment_view(request: HttpRequest) -> HttpResponse:
    """Answer with the fragment, or with 304 where the browser has it."""
    overview = share_overview(window_of(request))
    fragment = _render(request, overview)
    etag = _etag(fragment)
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    return HttpResponse(fragment, headers={"ETag": etag})


def summary_of(request: HttpRequest, overview: Overview) -> str:
    """Say in one sentence whether anything needs attention: what a screen reader is told when it changes."""
    alarms = [
        f"{card.value} {card.label}" for card in overview.cards if card.is_alarm and _may_see(request, card.model)
    ]
    if not alarms:
        return _("Nothing needs attention.")
    count = ngettext("%(count)d thing needs attention", "%(count)d things need attention", len(alarms))
    return f"{count % {'count': len(alarms)}}: {', '.join(alarms)}."


def _render(request: HttpRequest, overview: Overview) -> str:
    cards = [card for card in overview.cards if _may_see(request, card.model)]
    context = {
        "overview": overview,
        # What needs attention comes first.
        "cards": sorted(cards, key=lambda card: not card.is_alarm),
        "summary": summary_of(request, overview),
        "windows": [(word, window.label, word == overview.window) for word, window in WINDOWS.items()],
        "index": reverse("admin:app_list", args=["ledgence"]),
        "may_see": {model: _may_see(request, model) for model in ("queue", "task", "attempt", "operatoraction")},
    }
    return render_to_string(TEMPLATE, context, request)


def _may_see(request: HttpRequest, model: str) -> bool:
    return request.user.has_perm(f"ledgence.view_{model}")


def _etag(fragment: str) -> str:
    return f'"{hashlib.sha256(fragment.encode()).hexdigest()[:32]}"'
