"""The operator sees which process uses which catalog and can have them read again, over HTTP too."""

import time
from datetime import timedelta
from typing import Any

from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.store import processes
from tocsin.store.processes import ProcessReport

PATH = "/v1/admin/catalog"


async def seen(edge: Edge, kind: str, catalog: str, fault: str | None = None) -> ProcessReport:
    report = ProcessReport(id=uuid7(), kind=kind, host="a", pid=7, catalog=catalog, catalog_fault=fault)
    await processes.report(edge.pool, report, read_ago=timedelta())
    return report


async def status(edge: Edge) -> dict[str, Any]:
    answer = await edge.http.get(PATH, headers=await edge.key(Role.VIEWER))
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_different_catalogs_and_faults_are_shown(edge: Edge) -> None:
    assert await status(edge) == {"processes": [], "problems": {}}
    await seen(edge, "api", "aaa")
    await seen(edge, "worker", "bbb", "types/x.yaml:1: wrong")

    shown = await status(edge)

    assert [(row["kind"], row["catalog"]) for row in shown["processes"]] == [
        ("api", "aaa"),
        ("worker", "bbb"),
    ]
    assert shown["problems"] == {
        "catalog_faulty": "worker a/7: types/x.yaml:1: wrong",
        "catalogs_differ": "api a/7 aaa; worker a/7 bbb",
    }


async def test_a_process_that_was_not_seen_for_long_has_ended(edge: Edge) -> None:
    report = await seen(edge, "api", "aaa")
    await edge.pool.execute("update processes set seen_at = now() - interval '1 minute'")
    assert (await status(edge))["processes"] == []
    await processes.report(edge.pool, report, read_ago=None)
    assert len((await status(edge))["processes"]) == 1


async def test_a_reload_is_asked_for_by_an_operator_alone(edge: Edge) -> None:
    operator = await edge.key(Role.OPERATOR)
    refused = await edge.http.post(f"{PATH}/reload", headers=await edge.key(Role.VIEWER))
    nobody = await edge.http.post(f"{PATH}/reload", headers=operator)
    report = await seen(edge, "api", "aaa")
    asked = await edge.http.post(f"{PATH}/reload", headers=operator)

    assert refused.status_code == 403
    assert nobody.json() == {"asked_at": None}
    assert asked.json()["asked_at"] is not None
    assert await processes.report(edge.pool, report, read_ago=None)
    assert not await processes.report(edge.pool, report, read_ago=timedelta())


async def test_a_reload_that_is_asked_for_while_files_are_read_is_not_lost(edge: Edge) -> None:
    report = await seen(edge, "api", "aaa")
    began = time.monotonic()
    await edge.http.post(f"{PATH}/reload", headers=await edge.key(Role.OPERATOR))
    read_ago = timedelta(seconds=time.monotonic() - began)

    assert await processes.report(edge.pool, report, read_ago=read_ago)
