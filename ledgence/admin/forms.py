"""What a confirmation asks for: the rows as they were seen, why, how many, and what an action needs beside them."""

from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ledgence.conf import get_settings
from ledgence.models import Queue
from ledgence.operations.actions import REASON_LENGTHS, TYPED_ABOVE
from ledgence.wording import clock_time
from ledgence_worker.limits import PRIORITY_MAX, PRIORITY_MIN

#: How many queues the field for one suggests; any other can be typed.
QUEUES_SUGGESTED = 100


def reason_field(*, has_focus: bool = True) -> forms.CharField:
    """Return the field in which an operator says why."""
    return forms.CharField(
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Kept in the record of this action. 5 to 1,000 characters."),
        min_length=REASON_LENGTHS[0],
        max_length=REASON_LENGTHS[1],
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80, "autofocus": has_focus, "class": "vLargeTextField"}),
    )


def moment_field(**options: Any) -> forms.DateTimeField:
    """Return a field for a time, which may be left empty."""
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    return forms.DateTimeField(required=False, widget=widget, **options)


class ConfirmationForm(forms.Form):
    """What the confirmation page sends back. Of more than TYPED_ABOVE rows it asks for their number."""

    #: The rows that were named.
    targets = forms.CharField(widget=forms.HiddenInput, required=False)
    action_id = forms.UUIDField(widget=forms.HiddenInput)
    # The list's filters, to go back to; empty: back to the row's own page.
    back = forms.CharField(widget=forms.HiddenInput, required=False)

    #: Instead of them: the filter of the list, up to which row, and how many the page told.
    scope = forms.CharField(widget=forms.HiddenInput, required=False)
    bound = forms.CharField(widget=forms.HiddenInput, required=False)
    count = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, *arguments: Any, rows: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rows = rows
        self.fields["reason"] = reason_field()
        # It has the focus.
        self.order_fields(["reason"])
        if rows > TYPED_ABOVE:
            words = _("These are many. Type their number, %(count)d, to show that you mean all of them.")
            self.fields["typed"] = forms.IntegerField(
                label=gettext_lazy("Number of rows"), help_text=words % {"count": rows}
            )

    def clean_typed(self) -> int:
        typed: int = self.cleaned_data["typed"]
        if typed != self._rows:
            raise forms.ValidationError(_("The action is for %(count)d rows.") % {"count": self._rows})
        return typed

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen beside the rows, by the names that the operation gives it."""
        return {}


class SuggestingInput(forms.TextInput):
    """A line of text with the names of queues to choose from."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        names = Queue.objects.using(get_settings().database).order_by("name").values_list("name", flat=True).distinct()
        options = format_html_join("", '<option value="{}"></option>', ((one,) for one in names[:QUEUES_SUGGESTED]))
        field = super().render(name, value, (attrs or {}) | {"list": "ledgence-queues"}, renderer)
        return format_html('{}<datalist id="ledgence-queues">{}</datalist>', field, options)


class MoveForm(ConfirmationForm):
    """Asks for the queue to move to."""

    queue = forms.CharField(
        label=gettext_lazy("To queue"),
        help_text=gettext_lazy("The name of a queue that exists in the tenant and namespace of the tasks."),
        max_length=128,
        widget=SuggestingInput,
    )

    def clean_queue(self) -> str:
        name: str = self.cleaned_data["queue"]
        if not Queue.objects.using(get_settings().database).filter(name=name).exists():
            raise forms.ValidationError(_("There is no queue of this name."))
        return name

    @property
    def choices(self) -> dict[str, Any]:
        return {"queue": self.cleaned_data["queue"]}


class PriorityForm(ConfirmationForm):
    """Asks for a priority."""

    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        help_text=format_lazy(
            gettext_lazy("{lowest} to {highest}: the highest is taken first, and 0 is usual."),
            lowest=PRIORITY_MIN,
            highest=PRIORITY_MAX,
        ),
        min_value=PRIORITY_MIN,
        max_value=PRIORITY_MAX,
    )

    @property
    def choices(self) -> dict[str, Any]:
        return {"priority": self.cleaned_data["priority"]}


class PauseForm(ConfirmationForm):
    """Asks until when to pause."""

    until = moment_field(label=gettext_lazy("Until"))

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        words = _("It is %(now)s now. Housekeeping resumes the queue then. Empty: until somebody does.")
        self.fields["until"].help_text = words % {"now": clock_time(timezone.now())}

    def clean_until(self) -> datetime | None:
        # The database's clock decides; this says it beside the field.
        until: datetime | None = self.cleaned_data["until"]
        if until is not None and until <= timezone.now():
            raise forms.ValidationError(_("%(until)s is over.") % {"until": clock_time(until)})
        return until

    @property
    def choices(self) -> dict[str, Any]:
        return {"until": self.cleaned_data["until"]}
