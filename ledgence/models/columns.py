"""Two PostgreSQL column types that Django has no field for in the core."""

import json
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.lookups import PostgresOperatorLookup

if TYPE_CHECKING:
    Column = models.Field[Any, Any]
else:
    Column = models.Field


class JsonColumn(Column):
    """A PostgreSQL ``json`` value, kept byte for byte: ``1.0``, key order and an escaped NUL survive.

    ``json`` has no equality: never filter on it, and never ``distinct()`` a queryset that selects it.
    Operations write its text themselves; assigning a Python value encodes it.
    """

    def db_type(self, connection: Any) -> str:
        return "json"

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, allow_nan=False)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return value if prepared else self.get_prep_value(value)


class ArrayColumn(Column):
    """A one-dimensional PostgreSQL array of ``element`` ("uuid", "integer", "text"), read as a list.

    Django's own ArrayField would make every user install ``django.contrib.postgres``.
    """

    def __init__(self, element: str, **options: Any) -> None:
        self.element = element
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, [self.element, *args], options

    def db_type(self, connection: Any) -> str:
        return f"{self.element}[]"


@ArrayColumn.register_lookup
class Holds(PostgresOperatorLookup):
    """``roles__holds=["work"]``: the array has all of these elements."""

    lookup_name = "holds"
    postgres_operator = "@>"


@ArrayColumn.register_lookup
class Within(PostgresOperatorLookup):
    """``roles__within=["submit", "work"]``: the array has no other elements than these; an empty one has none."""

    lookup_name = "within"
    postgres_operator = "<@"
