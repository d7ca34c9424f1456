"""The names that operators choose for sources: of outboxes, streams and queues."""

import re
from collections.abc import Iterable, Iterator

from tocsin.domain.faults import Fault

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def name_faults(section: str, names: Iterable[str]) -> Iterator[Fault]:
    """List the names that cannot be used; they are part of settings, labels and producers."""
    for name in names:
        if not _NAME.fullmatch(name):
            message = "must be named by lower-case letters, digits, underscores and dashes, at most 40"
            yield Fault(field=f"{section}.{name}", code="invalid", message=message)
