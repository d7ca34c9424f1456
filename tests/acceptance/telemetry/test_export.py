"""Traces and metrics by OpenTelemetry: one trace from the producer's request to the webhook."""

import secrets
import uuid
from typing import Any

import pytest

from tests.acceptance.installation import intent
from tests.acceptance.telemetry.collector import Collector
from tests.acceptance.telemetry.site import Site
from tests.waiting import found, until


async def hooked(site: Site, *, traceparent: str | None = None, **fields: Any) -> dict[str, str | None]:
    """Notify Ada everywhere and return the headers with which her webhook got it."""
    before = len(_received(site))
    headers = site.http.key | ({"traceparent": traceparent} if traceparent else {})
    body = intent("ada", type="everywhere", payload={}, **fields)
    answer = await site.http.http.post("/v1/notifications", headers=headers, json=body)
    assert answer.status_code == 202, answer.text
    await until(lambda: len(_received(site)) > before)
    got: dict[str, str | None] = _received(site)[-1].message["headers"]
    return got


def _received(site: Site) -> list[Any]:
    phone = site.sandbox.phones.find("hook-of-ada-e1f0")
    return list(phone.messages) if phone else []


async def spans(collector: Collector, trace_id: str, sends: int) -> dict[str, list[Any]]:
    """Wait for the spans of a trace: the API and the worker export theirs each in its own time."""

    async def look() -> dict[str, list[Any]] | None:
        seen = collector.of_trace(trace_id)
        return seen if len(seen.get("send", ())) >= sends and "accept" in seen else None

    return await found(look)


async def test_a_trace_leads_from_the_request_to_the_webhook(site: Site, collector: Collector) -> None:
    trace_id, parent = secrets.token_hex(16), secrets.token_hex(8)

    headers = await hooked(site, traceparent=f"00-{trace_id}-{parent}-01")

    seen = await spans(collector, trace_id, 3)
    (accept,) = seen["accept"]
    assert accept.parent_span_id.hex() == parent
    assert {claim.parent_span_id for claim in seen["claim"]} == {accept.span_id}
    claims = {claim.span_id for claim in seen["claim"]}
    assert {send.parent_span_id for send in seen["send"]} == claims
    attributes = [{each.key: each.value for each in send.attributes} for send in seen["send"]]
    assert {each["tocsin.provider"].string_value for each in attributes} == {"fcm", "smtp", "webhook"}
    assert {each["tocsin.outcome"].string_value for each in attributes} == {"sent"}
    (hook,) = [
        send.span_id.hex()
        for send, each in zip(seen["send"], attributes, strict=True)
        if each["tocsin.provider"].string_value == "webhook"
    ]
    assert headers["traceparent"] == f"00-{trace_id}-{hook}-01"
    assert "tocsin" in collector.services


async def test_the_trace_id_of_an_intent_is_its_trace(site: Site, collector: Collector) -> None:
    trace_id = uuid.uuid4()

    headers = await hooked(site, trace_id=str(trace_id))

    seen = await spans(collector, trace_id.hex, 3)
    assert len(seen["accept"]) == 1
    assert str(headers["traceparent"]).startswith(f"00-{trace_id.hex}-")


async def test_what_the_producer_does_not_sample_is_not_recorded(site: Site, collector: Collector) -> None:
    trace_id, sampled = secrets.token_hex(16), secrets.token_hex(16)

    headers = await hooked(site, traceparent=f"00-{trace_id}-{secrets.token_hex(8)}-00")
    await hooked(site, traceparent=f"00-{sampled}-{secrets.token_hex(8)}-01")

    assert str(headers["traceparent"]).startswith(f"00-{trace_id}-")
    assert str(headers["traceparent"]).endswith("-00")
    await spans(collector, sampled, 3)
    assert collector.of_trace(trace_id) == {}


async def test_no_span_has_an_address_or_a_token(site: Site, collector: Collector) -> None:
    trace_id = secrets.token_hex(16)
    await hooked(site, traceparent=f"00-{trace_id}-{secrets.token_hex(8)}-01")
    await spans(collector, trace_id, 3)

    written = str(collector.spans)
    assert not [secret for secret in site.secrets if secret in written]


async def test_metrics_of_the_tree_are_exported_under_the_same_names(
    site: Site, collector: Collector
) -> None:
    await until(lambda: bool(collector.metrics))
    scraped = {name for name, _ in await site.scrape()}
    exported = collector.metrics

    def sent() -> float:
        points = collector.metrics["tocsin_deliveries_settled_total"].sum.data_points
        return sum(
            float(point.as_double)
            for point in points
            if "sent" in {each.value.string_value for each in point.attributes if each.key == "state"}
        )

    await until(lambda: "tocsin_deliveries_settled_total" in collector.metrics and sent() >= 9)
    assert exported["tocsin_database_up"].gauge.data_points[0].as_double == 1
    calls = exported["tocsin_provider_call_seconds"]
    assert calls.unit == "s"
    point = calls.histogram.data_points[0]
    assert point.count == sum(point.bucket_counts) > 0
    assert {"tocsin_deliveries_settled_total", "tocsin_database_up"} <= scraped


async def test_the_names_of_galaxy_have_the_same_numbers(site: Site, collector: Collector) -> None:
    await site.settled()
    failed = "tocsin_attempts_failed_total"
    behind: dict[str, list[tuple[str, dict[str, str]]]] = {
        "intent.outcomes": [
            ("tocsin_notifications_accepted_total", {}),
            ("tocsin_intents_duplicate_total", {}),
        ],
        "intent.malformed": [("tocsin_intents_refused_total", {})],
        "user_enrichment.attempts": [("tocsin_directory_lookups_total", {})],
        "route.publish_attempts": [("tocsin_deliveries_settled_total", {"state": "sent"}), (failed, {})],
        "route.retries": [(failed, {"state": "retrying"})],
        "route.dead_letters": [(failed, {"state": "dead"}), (failed, {"state": "rejected"})],
        "intent_stream.oldest_unprocessed_age_ms": [("tocsin_stream_lag_seconds", {})],
    }
    seen: dict[str, tuple[float, float]] = {}

    async def look() -> bool:
        for name, parts in behind.items():
            own = sum([await site.value(metric, **labels) for metric, labels in parts])
            seen[name] = own, exported(f"notification.{name}")
        # Processes report one after the other: at first some numbers are equal because they are missing.
        counted = seen["intent.outcomes"] + seen["intent.malformed"] + seen["route.dead_letters"]
        return min(counted) > 0 and all(own == of_galaxy for own, of_galaxy in seen.values())

    def exported(name: str) -> float:
        return sum(float(point.as_double) for point in _points(collector, name))

    try:
        await found(look, within=20)
    except TimeoutError:
        pytest.fail(f"own and exported numbers differ, or are missing: {seen}")
    assert len(_points(collector, "notification.route_schedule.depth")) == 1
    assert len(_points(collector, "notification.route_schedule.oldest_age_ms")) == 1


def _points(collector: Collector, name: str) -> Any:
    if name not in collector.metrics:
        return ()
    metric = collector.metrics[name]
    return metric.sum.data_points or metric.gauge.data_points
