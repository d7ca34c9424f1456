"""Decodes the bodies of events by the code that flatc generated, as a client in Python does."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tocsin.catalog.catalog import Catalog


class Bodies:
    """Knows the table of each type from the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._events = {name: each.event for name, each in catalog.types.items() if each.event}

    def decode(self, type_: str, body: bytes) -> dict[str, Any]:
        """Return the fields of a body."""
        event = self._events[type_]
        # The generated code has no types.
        module: Any = import_module(f"examples.galaxy.tables.{event.table}")
        table: Any = getattr(module, event.table.rpartition(".")[2]).GetRootAs(body)
        return {field: _python_value(table, field) for field in event.fields}

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Return the fields of each type's table with their types, in order, for a reader in a browser."""
        schema = (Path(__file__).parent / "notification.fbs").read_text()
        found = re.findall(r"table (\w+) \{(.*?)\}", schema, re.DOTALL)
        tables = {f"notification.{name}": re.findall(r"(\w+):(\w+);", body) for name, body in found}
        return {name: tables[event.table] for name, event in self._events.items()}


def _python_value(table: Any, field: str) -> Any:
    value = getattr(table, field.title().replace("_", ""))()
    return value.decode() if isinstance(value, bytes) else value
