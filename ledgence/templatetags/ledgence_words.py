"""Filters that put numbers into the words of the admin's pages."""

from datetime import timedelta

from django import template

from ledgence.admin import attention
from ledgence.admin.display import NOTHING
from ledgence.wording import span

register = template.Library()


@register.filter
def capped(count: int) -> str:
    """Say how many, where more than the cap are not counted."""
    return attention.capped(count)


@register.filter
def seconds(count: float | None) -> str:
    """Say how long so many whole seconds are."""
    return NOTHING if count is None else span(timedelta(seconds=max(1, round(count))))
