"""The delivery configuration: which queues go through which physical queues. It holds no secrets."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import date, time
from typing import Any, Final, get_type_hints

from ledgence_worker import wire
from ledgence_worker.delivery.adapters import Adapter, known_adapters, load_adapter
from ledgence_worker.delivery.document import Document, read_document
from ledgence_worker.delivery.json_places import Place
from ledgence_worker.delivery.ports import AckQueue, DispatchPublisher
from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier

_NAMES: Final = ("tenant", "namespace", "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A queue and the physical queue that delivers its work. ``tenant`` or ``namespace`` None: the process's own."""

    tenant: str | None
    namespace: str | None
    queue: str
    adapter: str
    options: Adapter

    def publisher(self) -> DispatchPublisher:
        """Return what sends to the physical queue, without asking the broker anything. Raises InvalidInput."""
        return self.options.publisher()

    def ack_queue(self) -> AckQueue:
        """Return what receives from the physical queue, without asking the broker anything. Raises InvalidInput."""
        return self.options.ack_queue()


def read_routes(path: str) -> tuple[Route, ...]:
    """Read the routes of a file, in TOML or JSON by its ending; there is at least one.

    Raises InvalidInput for whatever is unknown, missing, twice there or of a wrong kind, with the file and the line.
    """
    document = read_document(path)
    _check_fields(document, (), known=("routes",), required=("routes",))
    tables = document.value["routes"]
    if not isinstance(tables, list) or not tables:
        raise document.wrong(("routes",), "routes must be an array of at least one table.")
    routes: list[Route] = []
    for index in range(len(tables)):
        route = _read_route(document, ("routes", index))
        _check_apart(document, index, route, routes)
        routes.append(route)
    return tuple(routes)


def _read_route(document: Document, place: Place) -> Route:
    table = _check_table(document, place)
    adapters = known_adapters()
    named = [name for name, value in table.items() if name not in _NAMES and (name in adapters or type(value) is dict)]
    _check_fields(document, place, known=(*_NAMES, *named), required=("queue",))
    names = {name: _read_name(document, (*place, name)) for name in _NAMES if name in table}
    if len(named) != 1:
        found = f"names {' and '.join(named)}" if named else "has none"
        raise document.wrong(place, f"a route needs one table that names its adapter, and this one {found}.")
    [adapter] = named
    if adapter not in adapters:
        known = ", ".join(sorted(adapters)) or "none"
        raise document.wrong((*place, adapter), f"there is no adapter {adapter[:40]!r}; known are: {known}.")
    try:
        kind = load_adapter(adapters[adapter])
    except InvalidInput as error:
        raise document.wrong((*place, adapter), str(error)) from error
    options = _read_options(document, (*place, adapter), kind)
    tenant, namespace = names.get("tenant"), names.get("namespace")
    return Route(tenant=tenant, namespace=namespace, queue=names["queue"], adapter=adapter, options=options)


def _read_name(document: Document, place: Place) -> str:
    try:
        return check_identifier(document.at(place), what=str(place[-1]))
    except InvalidInput as error:
        raise document.wrong(place, str(error)) from None


def _read_options(document: Document, place: Place, kind: type[Adapter]) -> Adapter:
    options: dict[str, Field[Any]] = {option.name: option for option in fields(kind) if option.init}
    required = [
        name for name, option in options.items() if option.default is MISSING and option.default_factory is MISSING
    ]
    table = _check_fields(document, place, known=options, required=required)
    hints = get_type_hints(kind)
    values = {}
    for name, value in table.items():
        if isinstance(value, date | time):
            raise document.wrong((*place, name), f"{name} is a date or a time of TOML, which no option is.")
        try:
            values[name] = wire.read(hints[name], value, name)
        except InvalidInput as error:
            raise document.wrong((*place, name), str(error)) from None
    try:
        return kind(**values)
    except InvalidInput as error:
        name = str(error).partition(" ")[0]
        raise document.wrong((*place, name) if name in table else place, str(error)) from None


def _check_fields(
    document: Document, place: Place, *, known: Collection[str], required: Collection[str]
) -> Mapping[str, Any]:
    """Return the table at a place, which has the required fields and none that are unknown."""
    table = _check_table(document, place)
    what = _spelled(place)
    for name in table:
        if name not in known:
            text = f"{what} has an unknown field {name[:40]!r}; it may have {', '.join(known)}."
            raise document.wrong((*place, name), text)
    for name in required:
        if name not in table:
            raise document.wrong(place, f"{what} lacks the field {name}.")
    return table


def _check_table(document: Document, place: Place) -> Mapping[str, Any]:
    table = document.at(place)
    if not isinstance(table, dict):
        raise document.wrong(place, f"{_spelled(place)} must be a table of fields.")
    return table


def _check_apart(document: Document, index: int, route: Route, earlier: list[Route]) -> None:
    place = ("routes", index)
    for other, first in enumerate(earlier):
        if (first.tenant, first.namespace, first.queue) == (route.tenant, route.namespace, route.queue):
            line = document.line_of(("routes", other))
            raise document.wrong(place, f"queue {route.queue} has a route already, on line {line}.")
        if (first.adapter, first.options) == (route.adapter, route.options):
            line = document.line_of(("routes", other))
            text = f"this is the physical queue of {first.queue}, line {line}: each queue needs one of its own."
            raise document.wrong((*place, route.adapter), text)


def _spelled(place: Place) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return "".join(steps).removeprefix(".") or "the document"
