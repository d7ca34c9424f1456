"""Catalogs are reloaded in every process: by their files, by SIGHUP and by the command."""

import shutil
import signal
from pathlib import Path

import msgspec

from tests.acceptance.installation import installed
from tests.acceptance.processes import Process
from tests.engine.conftest import ALERT, TEXTS, add_type
from tests.waiting import until
from tocsin.catalog.load import load_catalog, shipped_catalog


async def test_a_running_installation_learns_a_type_and_survives_a_broken_one(
    database_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "catalog"
    shutil.copytree(shipped_catalog(), folder)
    async with installed(database_url, tmp_path) as made:
        made.environment["TOCSIN_CATALOG"] = str(folder)
        api = await made.start_api()
        worker = await made.start_worker()
        first = load_catalog(folder).fingerprint
        assert (await api.process.logged("catalog loaded"))["fingerprint"] == first
        assert (await worker.logged("catalog loaded"))["fingerprint"] == first
        assert (await api.http.get("/readyz")).json() == {"status": "ready", "catalog": first}
        await api.register("ada", "phone-of-ada")

        add_type(folder, "alert", ALERT, TEXTS)
        second = load_catalog(folder).fingerprint
        for process in (api.process, worker):
            await process.logged("catalog reloaded", fingerprint=second)
        sent = await api.notify("ada", type="alert", payload={"text": "Fire"})
        deliveries = await api.deliveries_in(sent, "sent", "skipped")
        assert {each["channel"]: each["state"] for each in deliveries}["push"] == "sent"

        (folder / "types/alert.yaml").write_text(ALERT.replace("[push, email]", "[push, fax]"))
        for process in (api.process, worker):
            assert (await process.logged("catalog reload failed"))["fingerprint"] == second
        await api.delivery_in(await api.notify("ada"), "sent")

        status = await made.processes.run("catalog", "status", "--json", environment=made.environment)
        rows = msgspec.json.decode("".join(status.output))
        assert {(row["kind"], row["catalog"]) for row in rows} == {("api", second), ("worker", second)}
        assert all("fax" in row["catalog_fault"] for row in rows)
        assert await status.end() == 1

        (folder / "types/alert.yaml").write_text(ALERT)
        reload = await made.processes.run("catalog", "reload", "--json", environment=made.environment)
        assert await reload.end() == 0, reload.log
        rows = msgspec.json.decode("".join(reload.output))
        assert [(row["catalog"], row["catalog_fault"]) for row in rows] == [(second, None)] * 2

        for process in (api.process, worker):
            await reloads_at_hangup(process)
        assert (await api.http.get("/healthz")).status_code == 200


async def test_what_waits_for_a_type_is_sent_once_the_worker_learns_it(
    database_url: str, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        shutil.copytree(shipped_catalog(), folder)
    add_type(new, "alert", ALERT, TEXTS)
    async with installed(database_url, tmp_path) as made:
        api = await made.start_api(TOCSIN_CATALOG=str(new))
        worker = await made.start_worker(TOCSIN_CATALOG=str(old))
        await api.register("ada", "phone-of-ada")
        notification_id = await api.notify("ada", type="alert", payload={"text": "Fire"})
        await worker.logged("type unknown")
        await worker.logged("catalogs differ")
        await api.delivery_in(await api.notify("ada"), "sent")

        add_type(old, "alert", ALERT, TEXTS)
        await worker.logged("catalog reloaded")
        deliveries = await api.deliveries_in(notification_id, "sent", "skipped")

        assert {each["channel"]: each["state"] for each in deliveries}["push"] == "sent"


async def reloads_at_hangup(process: Process) -> None:
    before = reloads(process)
    process.signal(signal.SIGHUP)
    await until(lambda: reloads(process) > before)


def reloads(process: Process) -> int:
    return sum("catalog reloaded" in line for line in process.log)
