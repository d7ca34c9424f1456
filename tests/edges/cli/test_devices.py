"""`tocsin devices` tells which devices were not seen for long."""

import asyncio
from pathlib import Path

from tests.edges.command_line import run
from tests.rows import NOW, add_device
from tocsin.store.pool import Pool


async def test_a_stale_device_is_listed_as_such(database_url: str, pool: Pool, tmp_path: Path) -> None:
    stale = await add_device(pool, stale_at=NOW, token_kind="fid")
    fresh = await add_device(pool)
    silent = await add_device(pool, stale_at=NOW, push_enabled=False)
    endpoint = await add_device(pool, provider="webhook")
    settings = {"TOCSIN_DATABASE_URL": database_url}

    listed, as_text = [
        await asyncio.to_thread(run, ["devices", "list", "ada", *more], settings, tmp_path)
        for more in (["--json"], [])
    ]

    assert {device["id"]: (device["stale"], device["token_kind"]) for device in listed.json} == {
        str(stale): (True, "fid"),
        str(fresh): (False, "token"),
        str(silent): (True, "token"),
    }
    states = {
        line.split()[0]: " ".join(line.split()[-2:]) for line in as_text.out.splitlines() if "fcm/" in line
    }
    assert states[str(stale)].endswith("stale")
    assert states[str(fresh)].endswith("active")
    assert states[str(silent)] == "no consent"
    assert str(endpoint) not in as_text.out
