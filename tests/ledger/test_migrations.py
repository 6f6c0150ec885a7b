"""The migrations: complete, reversible, and without a lock that anybody would wait for."""

import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import (
    AddConstraint,
    AddField,
    AddIndex,
    AlterField,
    AlterModelOptions,
    CreateModel,
    RunSQL,
)
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED, CharField, Field

from tests.ledger.actors import execute


def operations() -> list[tuple[str, Operation]]:
    loader = MigrationLoader(None)
    return [
        (name, operation)
        for (app, name), migration in sorted(loader.disk_migrations.items())
        if app == "ledgence"
        for operation in migration.operations
    ]


def test_the_models_have_no_change_without_a_migration(db):
    call_command("makemigrations", "ledgence", check=True, dry_run=True, verbosity=0)


#: Written seldom and in short transactions, so that a foreign key to them is soon made.
QUIET = {"ledgence.queue", "ledgence.workersession"}
#: Made by a later migration, so that nobody uses them while it runs.
NEW = {"publisher", "quarantinedmessage", "rollup"}


def locks_nobody(field: Field) -> bool:
    """Whether a column points to no table that is written all the time: its foreign key would lock that."""
    return field.remote_field is None or str(field.remote_field.model).lower() in QUIET


def takes_no_long_lock(operation: Operation) -> bool:
    """Whether it changes the catalogue alone, or builds beside the running work."""
    match operation:
        case AddIndexConcurrently() | RemoveIndexConcurrently() | AddConstraintNotValid() | ValidateConstraint():
            return True
        case AlterModelOptions():
            # Names and permissions: the tables know nothing of them.
            return True
        case CreateModel(fields=fields):
            return all(locks_nobody(field) for _, field in fields)
        case AddField(model_name=name, field=field) if name.lower() in NEW:
            return locks_nobody(field)
        case AddIndex(model_name=name) | AddConstraint(model_name=name):
            return name.lower() in NEW
        case AddField(field=field):
            # A constant default is kept in the catalogue.
            is_filled = field.null or field.db_default is not NOT_PROVIDED
            return is_filled and not field.unique and field.remote_field is None
        case AlterField(field=field):
            # A longer limit; a shorter one is refused by its author, not here.
            return isinstance(field, CharField)
        case RunSQL(sql=str(statement)):
            words = statement.strip().lower()
            return words.startswith("create view") or (words.startswith("alter table") and " set (" in words)
    return False


def test_no_migration_reads_or_rewrites_rows_under_a_lock():
    """The first one makes the tables; whatever comes later meets them in use."""
    later = [(name, operation) for name, operation in operations() if name != "0001_initial"]
    assert later != []
    assert [(name, operation) for name, operation in later if not takes_no_long_lock(operation)] == []


def test_every_migration_can_be_undone():
    assert [(name, operation) for name, operation in operations() if not operation.reversible] == []


@pytest.mark.django_db(transaction=True)
def test_the_tables_come_and_go():
    call_command("migrate", "ledgence", "zero", verbosity=0)
    assert [name for name in connection.introspection.table_names() if name.startswith("ledgence_")] == []
    call_command("migrate", "ledgence", verbosity=0)
    assert execute("select count(*) from ledgence_task_state") == [(0,)]


@pytest.mark.parametrize("table", ["ledgence_deliveryintent", "ledgence_lease"])
def test_hot_tables_are_vacuumed_by_count(db, table):
    [(options,)] = execute("select reloptions from pg_class where relname = %s", [table])
    assert "autovacuum_vacuum_scale_factor=0" in options and "autovacuum_vacuum_threshold=2000" in options


def test_the_way_to_a_task_carries_no_constraint_that_locks_it(db):
    """A foreign key from the hot tables would lock the wide row on every submission and claim."""
    rows = execute(
        "select conrelid::regclass::text from pg_constraint "
        "where contype = 'f' and confrelid = 'ledgence_task'::regclass"
    )
    assert rows == [("ledgence_deliveryevent",)]
