"""Retention: records go with their routes and dead letters; keys, refusals and offsets by their own rules."""

import asyncio
from pathlib import Path

from tests.blackbox.galaxy.rig.system import Notifications, intent
from tests.edges.command_line import run


async def prune(troubled: Notifications, folder: Path, **windows: str) -> None:
    """Run the retention of the service at once, with other windows than it has."""
    variables = {f"NOTIFICATION_{name}": window for name, window in windows.items()}
    environment = {**troubled.environment, **variables, "TOCSIN_PROFILE": "galaxy"}
    done = await asyncio.to_thread(run, ("prune",), environment, folder)
    assert done.code == 0, done.err


async def test_records_and_refusals_are_deleted_after_their_own_windows(
    troubled: Notifications, tmp_path: Path
) -> None:
    ada = troubled.player()
    fields = intent("game.finished", ada)
    entry_id = await troubled.append("game.finished", ada, **fields)
    await troubled.routes(entry_id, "published")
    malformed = await troubled.append("game.finished", ada, producer=None)
    await troubled.refusal(malformed)
    offset = await troubled.append("game.finished", ada, producer=None)
    await troubled.refusal(offset)

    await prune(troubled, tmp_path, RECORD_RETENTION="1ms")
    shown = await troubled.shown(entry_id)
    assert shown is None or (shown["deliveries"] == [] and shown["pruned_at"])
    assert await troubled.refusal(malformed)
    again = await troubled.append("game.finished", ada, **fields)

    await prune(troubled, tmp_path, MALFORMED_INTENT_RETENTION="1ms")
    answer = await troubled.http.get("/v1/admin/refused", headers=troubled.key)
    assert malformed not in answer.text
    after = await troubled.append("game.finished", troubled.player())
    await troubled.routes(after, "published")
    assert await troubled.events(again) == [], "its idempotency key is kept for longer than the record"
