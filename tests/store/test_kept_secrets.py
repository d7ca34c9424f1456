import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from itertools import count

from tests.databases import SCHEMA
from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of
from tocsin.store.pool import Pool
from tocsin.store.secrets import kept_secrets

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

FIRST_START = """
import asyncio, datetime, sys
from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of
from tocsin.store.secrets import kept_secrets
from tocsin.store.pool import PoolSettings, open_pool

async def main():
    async with open_pool(sys.argv[1], sys.argv[2], PoolSettings()) as pool:
        print("ready", flush=True)
        sys.stdin.readline()
        now = datetime.datetime.now(datetime.UTC)
        pem = await kept_secrets.get_or_make(pool, "webpush", new_private_key_pem, now)
        print(public_key_of(pem), flush=True)

asyncio.run(main())
"""


async def test_a_secret_is_made_once_and_kept(pool: Pool) -> None:
    made = 0

    def make() -> str:
        nonlocal made
        made += 1
        return f"secret {made}"

    assert await kept_secrets.find(pool, "webpush") is None
    first = await kept_secrets.get_or_make(pool, "webpush", make, NOW)

    assert await kept_secrets.get_or_make(pool, "webpush", make, NOW) == first == "secret 1"
    assert await kept_secrets.find(pool, "webpush") == first
    assert await kept_secrets.get_or_make(pool, "other", make, NOW) == "secret 2"


async def test_all_who_ask_at_once_get_the_same(pool: Pool) -> None:
    numbers = count()

    secrets = await asyncio.gather(
        *(kept_secrets.get_or_make(pool, "webpush", lambda: f"{next(numbers)}", NOW) for _ in range(20))
    )

    assert len(set(secrets)) == 1


async def test_one_who_makes_it_while_another_writes_it_waits_and_takes_that(pool: Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        first = await kept_secrets.get_or_make(connection, "webpush", lambda: "first", NOW)
        second = asyncio.create_task(kept_secrets.get_or_make(pool, "webpush", lambda: "second", NOW))
        while not await pool.fetchval("select exists (select from pg_locks where not granted)"):
            assert not second.done()

    assert (first, await second) == ("first", "first")


async def test_processes_that_start_for_the_first_time_at_once_share_one_key(
    database_url: str, pool: Pool
) -> None:
    command = [sys.executable, "-c", FIRST_START, database_url, SCHEMA]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - they run beside this test
        for _ in range(2)
    ]

    def run() -> list[str]:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        return [process.communicate("go\n", timeout=30)[0].strip() for process in processes]

    keys = await asyncio.to_thread(run)

    kept = await kept_secrets.get_or_make(pool, "webpush", new_private_key_pem, NOW)
    assert keys == [public_key_of(kept)] * 2
