"""System checks: what would stop Ledgence, or let it work worse than it could, told before it happens."""

from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.machinery import PathFinder
from typing import Any

from django.apps import AppConfig
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.urls import NoReverseMatch, reverse

from ledgence.calls import told_if_not_migrated
from ledgence.conf import LedgenceSettings, get_settings
from ledgence.watch import unpublished_queues
from ledgence_worker.errors import InvalidInput

#: What checks of Ledgence alone are asked for with: ``manage.py check --tag ledgence``.
TAG = "ledgence"

#: The oldest PostgreSQL that the statements are tested on.
POSTGRESQL_MIN = 15

#: Another product's distribution, which installs its code into this package.
NEIGHBOUR = "ledgence-worker"


@register(TAG)
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check LEDGENCE, and that the database it names can hold the ledger; connects to nothing."""
    try:
        settings = get_settings()
    except ImproperlyConfigured as error:
        return [
            Error(f"LEDGENCE cannot be used: {error}", hint="Correct it in the project's settings.", id="ledgence.E001")
        ]
    if settings.database not in connections:
        return [
            Error(
                f"LEDGENCE['DATABASE'] is {settings.database!r}, which DATABASES does not have.",
                hint=f"Name one of: {', '.join(connections)}.",
                id="ledgence.E002",
            )
        ]
    return list(_check_connection(settings))


def _check_connection(settings: LedgenceSettings) -> Iterator[CheckMessage]:
    connection = connections[settings.database]
    if connection.vendor != "postgresql":
        yield Error(
            f"The ledger's database {settings.database!r} is {connection.vendor}.",
            hint="Ledgence needs PostgreSQL. Let LEDGENCE['DATABASE'] name a database of it.",
            id="ledgence.E003",
        )
        return
    options = connection.settings_dict["OPTIONS"]
    # Django's own value for READ COMMITTED is 1, and None leaves it to the server, which has it as its default.
    if options.get("isolation_level") not in (None, 1):
        yield Warning(
            f"The ledger's database {settings.database!r} is used with another isolation level than READ COMMITTED.",
            hint="Operations are written for READ COMMITTED: others make them fail as Busy when rows are contended.",
            id="ledgence.W001",
        )
    if settings.hints and connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        yield Warning(
            f"Hints are on, but the ledger's database {settings.database!r} seems to stand behind a transaction pool.",
            hint="LISTEN hears nothing through one. Set LEDGENCE['HINTS'] to False; workers then ask once a second.",
            id="ledgence.W002",
        )


@register(TAG)
def check_time_zones(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check that times carry their zone: the ledger's are the database's, and must mean the same everywhere."""
    if django_settings.USE_TZ:
        return []
    return [
        Error(
            "USE_TZ is False: times read from the ledger would have no zone.",
            hint="Set USE_TZ to True.",
            id="ledgence.E004",
        )
    ]


@register(TAG)
def check_neighbour(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check that no other product has put its code into this package."""
    if not (_is_installed(NEIGHBOUR) or _is_in_this_package("worker")):
        return []
    return [
        Error(
            f"The distribution {NEIGHBOUR} is another product, and installs files into this package.",
            hint=f"Uninstall {NEIGHBOUR}, then reinstall django-ledgence and django-ledgence-worker.",
            id="ledgence.E005",
        )
    ]


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _is_in_this_package(module: str) -> bool:
    import ledgence

    return PathFinder.find_spec(f"ledgence.{module}", ledgence.__path__) is not None


@register(Tags.urls)
def check_address(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Check that a project which includes the task service's addresses has them where callers look."""
    if not getattr(django_settings, "ROOT_URLCONF", None):
        return []
    try:
        address = reverse("ledgence:task-service", kwargs={"path": ""})
    except NoReverseMatch:
        return []
    if address.endswith("/ledgence/v1/"):
        return []
    return [
        Warning(
            f"The task service answers at {address}, but callers add /ledgence/v1/ to the address of a server.",
            hint='Include it as path("ledgence/", include("ledgence.urls")).',
            id="ledgence.W003",
        )
    ]


@register(Tags.database)
def check_server(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Check the version of the ledger's server. Runs with ``check --database`` and ``migrate``."""
    database = _ledger_among(databases)
    if database is None:
        return []
    connection: Any = connections[database]
    connection.ensure_connection()
    if connection.pg_version >= POSTGRESQL_MIN * 10_000:
        return []
    return [
        Error(
            f"The ledger's database {database!r} is PostgreSQL {connection.pg_version // 10_000}.",
            hint=f"Ledgence needs PostgreSQL {POSTGRESQL_MIN} or newer.",
            id="ledgence.E006",
        )
    ]


@register(Tags.database)
def check_publishers(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Check that every external queue has a live publisher. Runs with ``check --database`` and ``migrate``."""
    database = _ledger_among(databases)
    if database is None:
        return []
    try:
        with transaction.atomic(using=database), told_if_not_migrated(database):
            queues = unpublished_queues(database)
    except InvalidInput:
        # Before the first migration there are no queues.
        return []
    return [
        Warning(
            f"External queue {queue.tenant}/{queue.namespace}/{queue.queue} has no live publisher: "
            "its work reaches no worker.",
            hint="Start manage.py ledgence_publisher with its route, or give it back with manage.py ledgence_route.",
            id="ledgence.W004",
        )
        for queue in queues
    ]


def _ledger_among(databases: Sequence[str] | None) -> str | None:
    """Return the ledger's database if it is one of those that may be asked, and can be."""
    try:
        database = get_settings().database
    except ImproperlyConfigured:
        return None
    is_asked = database in (databases or ()) and connections[database].vendor == "postgresql"
    return database if is_asked else None
