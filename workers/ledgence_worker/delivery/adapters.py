"""Adapters to brokers: their options, and how one is found by the name that a route gives it."""

from dataclasses import Field, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Final, Protocol, cast

from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher
from ledgence_worker.errors import InvalidInput

#: The group of the entry points by which other distributions offer adapters.
GROUP: Final = "ledgence_worker.adapters"
_SQS: Final = EntryPoint(name="sqs", value="ledgence_worker.delivery.sqs.options:SqsOptions", group=GROUP)


class Adapter(Protocol):
    """The options of one physical queue: a frozen dataclass, whose fields are the options that a route may name.

    They are text, numbers, true or false, or tuples of these; those without a default are required. ``__post_init__``
    raises InvalidInput for what cannot be; a text that begins with the option's name gets the line of that option.
    Equal options are the same physical queue: give ``compare=False`` to a field that only says how it is used.
    """

    #: What the decorator makes. Any: an option's type is its adapter's affair.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def publisher(self) -> DispatchPublisher:
        """Return what sends to the queue, without asking the broker anything. Raises InvalidInput."""
        ...

    def ack_queue(self) -> AckQueue:
        """Return what receives from the queue, without asking the broker anything. Raises InvalidInput."""
        ...


def known_adapters() -> dict[str, EntryPoint]:
    """Return the adapters that are installed, by their names; the bundled one cannot be replaced."""
    return {point.name: point for point in (*entry_points(group=GROUP), _SQS)}


def load_adapter(point: EntryPoint) -> type[Adapter]:
    """Import an adapter's options. Raises InvalidInput if its distribution is broken."""
    try:
        adapter = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"the adapter {point.name} cannot be loaded from {point.value}: {error}.") from error
    if not isinstance(adapter, type) or not is_dataclass(adapter):
        raise InvalidInput(f"the adapter {point.name} is broken: {point.value} is not a dataclass of options.")
    return cast(type[Adapter], adapter)
