"""`tocsin devices` tells which devices were not seen for long."""

import asyncio
import base64
from pathlib import Path

from tests.edges.command_line import Ran, run
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


async def test_the_secret_of_an_endpoint_is_rotated(database_url: str, pool: Pool, tmp_path: Path) -> None:
    settings = {"TOCSIN_DATABASE_URL": database_url}

    async def tocsin(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, ["keys", "rotate-webhook", *arguments], settings, tmp_path)

    first = await add_device(pool, provider="webhook", secret="whsec_old")
    only = await tocsin("ada", "--overlap", "0", "--by", "grace", "--json")
    stored = await pool.fetchval("select secret from devices where id = $1", first)
    second = await add_device(pool, provider="webhook", secret="whsec_other")
    several = await tocsin("ada")
    chosen = await tocsin("ada", str(second))
    nobody = await tocsin("bob")
    unknown = await tocsin("bob", str(second))

    assert (only.json["endpoint_id"], only.json["secret"]) == (str(first), stored)
    assert (several.code, str(first) in several.said, str(second) in several.said) == (1, True, True)
    assert "The old one signs too for 24h." in chosen.out
    assert (nobody.code, nobody.said) == (1, "error: User bob has no active webhook endpoint.")
    assert (unknown.code, "no active webhook endpoint" in unknown.said) == (1, True)
    actors = await pool.fetch("select actor from audit where action = 'webhook_secret.rotate' order by id")
    assert actors[0]["actor"] == "grace"
    assert len(actors) == 2


async def test_stored_tokens_are_encrypted_and_a_worker_without_the_key_does_not_start(
    database_url: str, pool: Pool, tmp_path: Path
) -> None:
    key = base64.b64encode(b"k" * 32).decode()

    async def tocsin(*arguments: str, **variables: str) -> Ran:
        settings = {"TOCSIN_DATABASE_URL": database_url, **variables}
        return await asyncio.to_thread(run, arguments, settings, tmp_path)

    await add_device(pool, token="token-1")
    without = await tocsin("keys", "rotate-data")
    done = await tocsin("keys", "rotate-data", TOCSIN_DATA__KEY=key)
    worker = await tocsin("worker", TOCSIN_EXPO__ENABLED="true")
    off = await tocsin("keys", "rotate-data", "--json", TOCSIN_DATA__PREVIOUS_KEYS=key)

    assert (without.code, "TOCSIN_DATA__KEY" in without.said) == (2, True)
    assert (done.code, done.out.startswith("Rewrote 1 row with the data key")) == (0, True)
    assert "0 rows are left." in done.out
    assert (worker.code, "data.previous_keys" in worker.said) == (2, True)
    assert "Traceback" not in worker.err
    assert off.json == {"key_id": None, "rewritten": 1, "unreadable": 0, "left": 0}
    assert await pool.fetchval("select token from devices") == "token-1"
    assert key not in without.said + done.said + worker.said
