"""Links to further pages of lists."""

from typing import Any
from urllib.parse import urlencode

import msgspec


def next_page(query: msgspec.Struct, before: object | None) -> str | None:
    """Return the query of the following page: the same filter, with its cursor; None after the last page."""
    if before is None:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(query)
    given = {name: value for name, value in fields.items() if value is not None}
    return urlencode(given | {"before": str(before)})
