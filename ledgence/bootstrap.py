"""What a child process loads before it runs programs: Django, and the programs of every installed app."""

import django
from django.db import close_old_connections, connections, reset_queries
from django.utils.module_loading import autodiscover_modules

from ledgence_worker.bootstrap import Hooks


def load_programs() -> Hooks:
    """Set Django up and import each installed app's ``tasks`` and ``programs`` modules, which register programs."""
    django.setup()
    autodiscover_modules("tasks", "programs")
    return Hooks(
        before=(reset_queries, close_old_connections, close_dead_connections), after=(close_abandoned_connections,)
    )


def close_dead_connections() -> None:
    """Close connections whose other end is gone. With CONN_HEALTH_CHECKS Django looks by itself, when one is used."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None or connection.settings_dict["CONN_HEALTH_CHECKS"]:
            continue
        if not connection.is_usable():
            connection.close()


def close_abandoned_connections() -> None:
    """Close connections over CONN_MAX_AGE, broken ones, and those on which an attempt left a transaction open."""
    for connection in connections.all(initialized_only=True):
        # Asking get_autocommit() would open the connections that the attempt did not use.
        if connection.connection is not None and (connection.in_atomic_block or not connection.autocommit):
            connection.close()
    close_old_connections()
