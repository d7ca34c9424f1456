"""The process: probes, no `/metrics`, metrics by OpenTelemetry, logs, settings, start and stop."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.acceptance.processes import free_port
from tests.acceptance.telemetry.collector import Collector
from tests.blackbox.galaxy.rig.document import METRICS
from tests.blackbox.galaxy.rig.system import Notifications, intent, service_command
from tests.edges.command_line import run
from tests.waiting import found

PROBES = Path(__file__).parents[3] / "docs" / "reference" / "probes.openapi.json"


async def probe(galaxy: Notifications, path: str) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(galaxy.probes + path)


@pytest.mark.parametrize(("path", "status"), [("/healthz", "ok"), ("/readyz", "ready")])
async def test_a_probe_answers_as_its_contract_says(galaxy: Notifications, path: str, status: str) -> None:
    answer = await probe(galaxy, path)

    assert answer.status_code == 200
    assert answer.json() == {"status": status}
    document = json.loads(PROBES.read_text("utf-8"))
    described = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = {"allOf": [described], "components": document["components"]}
    assert jsonschema_rs.validator_for(schema).is_valid(answer.json())


async def test_there_are_no_metrics_on_any_listener(galaxy: Notifications) -> None:
    assert (await probe(galaxy, "/metrics")).status_code == 404
    assert (await galaxy.http.get("/metrics", headers=galaxy.key)).status_code == 404


async def test_the_probe_listener_has_no_other_calls(galaxy: Notifications) -> None:
    for path in ("/", "/v1/notifications", "/openapi.json"):
        assert (await probe(galaxy, path)).status_code == 404


def points(collector: Collector, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the newest value of each series of a metric, by its attributes."""
    if name not in collector.metrics:
        return {}
    metric: Any = collector.metrics[name]
    return {
        tuple(sorted((each.key, each.value.string_value) for each in point.attributes)): point.as_double
        for point in metric.sum.data_points or metric.gauge.data_points
    }


def total(collector: Collector, name: str, **attributes: str) -> float:
    return sum(
        value
        for found_attributes, value in points(collector, name).items()
        if attributes.items() <= dict(found_attributes).items()
    )


async def test_what_happens_to_intents_and_routes_is_counted(
    galaxy: Notifications, collector: Collector
) -> None:
    ada = galaxy.player()
    fields = intent("lobby.invite.redeemed", ada)
    entry_ids = [await galaxy.append("lobby.invite.redeemed", ada, **fields) for _ in range(3)]
    await galaxy.append("lobby.invite.redeemed", ada, producer=None)
    await galaxy.append("lobby.invite.redeemed", "nobody-is-called-so")
    await galaxy.routes(entry_ids[0], "published")
    of_type = {"notification_type": "lobby.invite.redeemed"}

    async def is_counted() -> bool:
        return (
            total(collector, "notification.intent.outcomes", outcome="duplicate", **of_type) >= 2
            and total(collector, "notification.intent.outcomes", outcome="accepted", **of_type) >= 1
            and total(collector, "notification.intent.malformed", failure_code="invalid_intent") >= 1
            and total(collector, "notification.intent.malformed", failure_code="recipient_not_found") >= 1
            and total(collector, "notification.user_enrichment.attempts", result="found") >= 1
            and total(collector, "notification.user_enrichment.attempts", result="missing") >= 1
            and total(collector, "notification.route.publish_attempts", channel="push", result="published")
            >= 1
            and total(collector, "notification.route.publish_attempts", channel="email", result="published")
            >= 1
        )

    await found(is_counted)


async def test_the_schedule_and_the_stream_are_measured(galaxy: Notifications, collector: Collector) -> None:
    """Routes that are settled leave the schedule, entries that are read are not counted as waiting."""
    await galaxy.routes(await galaxy.append("game.finished", galaxy.player()), "published")

    async def is_empty() -> bool:
        return (
            points(collector, "notification.route_schedule.depth") == {(): 0}
            and points(collector, "notification.route_schedule.oldest_age_ms") == {(): 0}
            and points(collector, "notification.intent_stream.oldest_unprocessed_age_ms") == {(): 0}
        )

    await found(is_empty)


async def test_no_metric_has_an_attribute_of_a_person_or_a_notification(
    galaxy: Notifications, collector: Collector
) -> None:
    ada = galaxy.player()
    entry_id = await galaxy.append("game.finished", ada, idempotency_key=f"key-of-{ada}")
    await galaxy.routes(entry_id, "published")

    async def is_exported() -> bool:
        return bool(points(collector, "notification.route.publish_attempts"))

    await found(is_exported)
    for name, allowed in METRICS.items():
        for attributes in points(collector, name):
            assert dict(attributes).keys() <= allowed, name
    assert ada not in str(collector.metrics)
    assert entry_id not in str(collector.metrics)


async def test_routes_are_logged_with_their_notification_and_their_request(galaxy: Notifications) -> None:
    ada = galaxy.player()

    entry_id = await galaxy.append("game.finished", ada, request_id=f"request-of-{ada}", trace_id="t-9")

    await galaxy.routes(entry_id, "published")
    line = await galaxy.process.logged("delivery settled", request_id=f"request-of-{ada}", channel="push")
    assert line["route_id"] == f"push:user:{ada}"
    assert (line["type"], line["producer"], line["state"]) == ("game.finished", "game_master", "sent")
    assert line["trace_id"] == "t-9"


async def test_settings_that_cannot_be_used_stop_the_start_with_all_their_faults(
    galaxy: Notifications, tmp_path: Path
) -> None:
    environment = dict(galaxy.environment) | {
        "NOTIFICATION_REDIS_ADDR": "127.0.0.1:6379",
        "NOTIFICATION_REDIS_TLS_ENABLED": "true",
        "NOTIFICATION_ROUTE_LEASE_TTL": "soon",
    }
    del environment["NOTIFICATION_USER_SERVICE_BASE_URL"]

    started = await asyncio.to_thread(run, service_command(), environment, tmp_path)

    assert started.code not in {0, None}
    for name in (
        "NOTIFICATION_REDIS_ADDR",
        "NOTIFICATION_REDIS_TLS_ENABLED",
        "NOTIFICATION_ROUTE_LEASE_TTL",
        "NOTIFICATION_USER_SERVICE_BASE_URL",
    ):
        assert name in started.err


async def test_without_redis_the_start_fails_at_once(galaxy: Notifications, tmp_path: Path) -> None:
    environment = dict(galaxy.environment) | {
        "NOTIFICATION_REDIS_MASTER_ADDR": f"127.0.0.1:{free_port()}",
        "NOTIFICATION_INTERNAL_HTTP_ADDR": f"127.0.0.1:{free_port()}",
    }

    started = await asyncio.to_thread(run, service_command(), environment, tmp_path)

    assert started.code not in {0, None}
    assert "NOTIFICATION_REDIS_MASTER_ADDR" in started.err


async def test_a_port_that_is_taken_is_reported_by_the_variable_of_the_document(
    galaxy: Notifications, tmp_path: Path
) -> None:
    started = await asyncio.to_thread(run, service_command(), dict(galaxy.environment), tmp_path)

    assert started.code not in {0, None}
    assert "is taken by another process" in started.err
    assert "NOTIFICATION_INTERNAL_HTTP_ADDR" in started.err
    assert "TOCSIN_" not in started.err
