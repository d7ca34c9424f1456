"""Entries that are gone, as a Redis that counts what was ever added, 7 or later, answers."""

from unittest import mock

import pytest

from tocsin.ingress.redis_streams.reader import StreamReader
from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.store.sources.stream_offsets import Offset

NOW = (1_767_225_600, 0)


async def looked(offset: Offset, state: list[object], *entry_ids: bytes) -> tuple[int | None, bool]:
    """Return how many entries a look reports as lost, and whether one was deleted before the first."""
    reader = StreamReader(StreamSettings(), RedisSettings(url="redis://127.0.0.1:1/0"))
    found: list[object] = [(b"stream", [(entry_id, {}) for entry_id in entry_ids])]
    with mock.patch.object(reader, "_read", return_value=(NOW, state, found)):
        look = await reader.look(offset)
    await reader.aclose()
    return look.gap.entries if look.gap else None, look.deleted_before_first(offset)


@pytest.mark.parametrize(
    ("offset", "state", "expected"),
    [
        # 5-0 to 8-0 were added; 5-0 was deleted by its id before anything was read.
        (Offset("0-0", 0), [b"8-0", 3, b"6-0", 4, b"5-0"], (None, True)),
        # 5-0 was trimmed.
        (Offset("0-0", 0), [b"8-0", 3, b"6-0", 4, b"0-0"], (1, False)),
        # 3-0 and 4-0 were trimmed, 5-0 was deleted.
        (Offset("0-0", 0), [b"8-0", 3, b"6-0", 6, b"5-0"], (2, True)),
        # 4-0 was read and trimmed, then 5-0 deleted.
        (Offset("4-0", 1), [b"8-0", 3, b"6-0", 5, b"5-0"], (None, True)),
        # 3-0 was deleted long ago and counted as read with 4-0; 5-0 was trimmed.
        (Offset("4-0", 2), [b"8-0", 3, b"6-0", 6, b"3-0"], (1, False)),
        # 7-0, behind the first, was deleted.
        (Offset("5-0", 1), [b"8-0", 2, b"6-0", 4, b"7-0"], (None, False)),
    ],
)
async def test_an_entry_that_was_deleted_by_its_id_is_not_lost(
    offset: Offset, state: list[object], expected: tuple[int | None, bool]
) -> None:
    assert await looked(offset, state, b"6-0", b"8-0") == expected
