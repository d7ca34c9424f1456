"""What waits in the database outlives a deployment: it is a type, a version and a payload, and no code."""

import io
import shutil
import subprocess
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation, installed
from tests.acceptance.test_periodic import QUICK
from tests.databases import SCHEMA, fresh_database
from tests.rows import add_device
from tests.waiting import found
from tocsin.catalog.load import shipped_catalog
from tocsin.engine.clock import utc_now
from tocsin.sandbox import Refuse
from tocsin.store.migrate import pending_migrations

ROOT = Path(__file__).parents[2]
BEFORE_THE_NEWEST_MIGRATION = "before the newest migration"
# The type stands in another file now, has a new version, and calls its field by another name.
MOVED = """
new_customer:
  version: 3
  category: customers
  channels: [push]
  default_locale: en
  payload:
    type: object
    properties: {client: {type: string, examples: [Ali Veli]}}
    required: [client]
    additionalProperties: false
  versions:
    2:
      payload:
        type: object
        properties: {customer_name: {type: string}}
        required: [customer_name]
      upgrade:
        rename: {customer_name: client}
    1:
      payload:
        type: object
        properties: {customerName: {type: string}}
        required: [customerName]
      upgrade:
        rename: {customerName: customer_name}
"""


def git(*arguments: str) -> bytes:
    """Ask git, or leave the test out where there is no history to ask about."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed, so no earlier commit's code can write the rows")
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if ran.returncode:
        pytest.skip(f"no earlier commit's code can write the rows: {ran.stderr.decode().strip()}")
    return ran.stdout


def earlier_commit(which: str) -> str:
    if which != BEFORE_THE_NEWEST_MIGRATION:
        return which
    added = git("log", "-1", "--format=%H", "--diff-filter=A", "--", "src/tocsin/store/migrations")
    if not added.strip():
        pytest.skip("the history does not tell which commit added the newest migration")
    return f"{added.decode().strip()}~1"


@pytest.fixture
async def new_installation(server_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    """Give an installation whose database holds nothing yet."""
    async with fresh_database(server_url) as url, installed(url, tmp_path) as made:
        yield made


class EarlierCode:
    """The command line as an earlier commit had it, in processes of its own."""

    def __init__(self, installation: Installation, which: str, folder: Path) -> None:
        archive = git("archive", "--format=zip", earlier_commit(which), "src")
        # Safe without a filter, which tarfile has only from Python 3.11.4 on.
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            files.extractall(folder)
        self._installation = installation
        self._environment = {**installation.environment, **SLOW, "PYTHONPATH": str(folder / "src")}

    async def run(self, *arguments: str) -> str:
        process = await self._installation.processes.run(*arguments, environment=self._environment)
        assert await process.end() == 0, process.log
        return "\n".join(process.output)

    async def send(self, user: str, payload: str, *more: str) -> None:
        await self.run("send", "new_customer", "--user", user, "--payload", payload, "--key", user, *more)

    async def fail_once(self, user: str) -> None:
        """Let an attempt fail, so that the next one is left to whoever comes."""
        self._installation.sandbox.faults.script(user, Refuse("UNAVAILABLE"))
        worker = await self._installation.processes.start("worker", environment=self._environment)

        async def retrying() -> bool:
            assert not worker.ended, worker.log
            return await self._installation.deliveries("state = 'retrying'") == 1

        await found(retrying, within=60)
        await worker.kill()


SLOW = {name: value for name, value in QUICK.items() if "PERIODIC" not in name}


def moved_catalog(folder: Path) -> Path:
    shutil.copytree(shipped_catalog(), folder)
    (folder / "types" / "new_customer.yaml").unlink()
    (folder / "types" / "people.yaml").write_text(MOVED)
    for text in (folder / "templates" / "new_customer").rglob("*.j2"):
        text.write_text(text.read_text().replace("customer_name", "client"))
    return folder


@pytest.mark.parametrize("which", ["HEAD~1", BEFORE_THE_NEWEST_MIGRATION])
async def test_what_an_earlier_commit_stored_is_delivered_by_this_one(
    new_installation: Installation, tmp_path: Path, which: str
) -> None:
    installation = new_installation
    earlier = EarlierCode(installation, which, tmp_path / "earlier")
    await earlier.run("migrate")
    if which == BEFORE_THE_NEWEST_MIGRATION:
        async with installation.pool.acquire() as connection:
            assert await pending_migrations(connection, SCHEMA)
    people = ["retried", "due", "later", "old-version"]
    for user in people:
        await add_device(installation.pool, user, token=user, last_seen_at=utc_now())
    await earlier.send("retried", '{"customer_name": "Ali"}')
    await earlier.fail_once("retried")
    await earlier.send("due", '{"customer_name": "Banu"}')
    soon = (utc_now() + timedelta(seconds=2)).isoformat()
    await earlier.send("later", '{"customer_name": "Can"}', "--send-at", soon)
    await earlier.send("old-version", '{"customerName": "Derya"}', "--version", "1")
    stored = await installation.pool.fetch("select row_to_json(n)::text from notifications n")
    assert not [row[0] for row in stored if "tocsin" in row[0]]

    await installation.processes.run("migrate", environment=installation.environment)
    await installation.start_worker(**QUICK, TOCSIN_CATALOG=str(moved_catalog(tmp_path / "catalog")))
    await installation.until_sent(len(people))

    bodies = {}
    for user in people:
        phone = installation.sandbox.phones.find(user)
        assert phone is not None
        assert phone.received == 1
        bodies[user] = phone.messages[-1].message["notification"]["body"]
    assert bodies == {
        "retried": "Ali just signed up.",
        "due": "Banu just signed up.",
        "later": "Can just signed up.",
        "old-version": "Derya just signed up.",
    }
