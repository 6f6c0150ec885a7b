"""Gives the app's index in the admin its overview: no site and no view of its own is needed for it."""

from typing import Any

from django import template

from ledgence.admin.refresh import first_look

register = template.Library()


@register.simple_tag(takes_context=True)
def ledgence_overview(context: Any) -> dict[str, Any]:
    """Return what the overview's templates show, as it is now."""
    return first_look(context["request"])
