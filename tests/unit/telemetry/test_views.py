"""Metrics under the names of the galaxy notification service, as a collector gets them."""

from typing import Any

import pytest

from tests.acceptance.telemetry.collector import collecting
from tocsin.telemetry.metrics import BY_NAME
from tocsin.telemetry.otlp import MetricsExport
from tocsin.telemetry.samples import Samples
from tocsin.telemetry.views import GALAXY

ALLOWED = {
    "notification_type",
    "producer",
    "audience_kind",
    "channel",
    "result",
    "outcome",
    "failure_code",
    "failure_classification",
}
LOST = "gateway_stream_publish_failed"
SAMPLES: Samples = {
    "tocsin_notifications_accepted_total": {
        ("game.finished", "redis_streams"): 4,
        ("game.finished", "http"): 1,
    },
    "tocsin_intents_duplicate_total": {("game.finished", "redis_streams"): 2},
    "tocsin_intents_refused_total": {
        ("other", "redis_streams", "invalid_intent"): 3,
        ("game.finished", "redis_streams", "recipient_not_found"): 1,
    },
    "tocsin_directory_lookups_total": {("found",): 7, ("missing",): 1, ("failed",): 2},
    "tocsin_deliveries_settled_total": {
        ("game.finished", "push", "gateway_stream", "sent", ""): 3,
        ("game.turn.ready", "push", "gateway_stream", "sent", ""): 2,
        ("game.finished", "email", "", "skipped", "no_address"): 9,
        ("game.finished", "push", "gateway_stream", "dead", ""): 1,
    },
    "tocsin_attempts_failed_total": {
        ("push", "gateway_stream", "retry", LOST, "retrying"): 2,
        ("push", "gateway_stream", "retry", LOST, "dead"): 1,
        ("push", "gateway_stream", "rejected", "payload_encoding_failed", "rejected"): 1,
    },
    "tocsin_queue_deliveries": {
        ("gateway_stream", "due"): 2,
        ("gateway_stream", "scheduled"): 1,
        ("mail_stream", "held"): 4,
    },
    "tocsin_queue_oldest_seconds": {("gateway_stream",): 1.5, ("mail_stream",): 0.25},
    "tocsin_stream_lag_seconds": {("galaxy",): 0.75, ("other",): 0.0},
}
EXPECTED = {
    "notification.intent.outcomes": {
        ("notification_type=game.finished", "outcome=accepted"): 5,
        ("notification_type=game.finished", "outcome=duplicate"): 2,
    },
    "notification.intent.malformed": {
        ("failure_code=invalid_intent", "notification_type=other"): 3,
        ("failure_code=recipient_not_found", "notification_type=game.finished"): 1,
    },
    "notification.user_enrichment.attempts": {
        ("result=found",): 7,
        ("result=missing",): 1,
        ("result=failed",): 2,
    },
    "notification.route.publish_attempts": {
        ("channel=push", "result=published"): 5,
        ("channel=push", f"failure_classification={LOST}", "result=failed"): 3,
        ("channel=push", "failure_classification=payload_encoding_failed", "result=failed"): 1,
    },
    "notification.route.retries": {("channel=push", f"failure_classification={LOST}"): 2},
    "notification.route.dead_letters": {
        ("channel=push", f"failure_classification={LOST}"): 1,
        ("channel=push", "failure_classification=payload_encoding_failed"): 1,
    },
    "notification.route_schedule.depth": {(): 7},
    "notification.route_schedule.oldest_age_ms": {(): 1_500},
    "notification.intent_stream.oldest_unprocessed_age_ms": {(): 750},
}


def points_of(metric: Any) -> dict[tuple[str, ...], float]:
    points = metric.gauge.data_points or metric.sum.data_points
    return {
        tuple(sorted(f"{each.key}={each.value.string_value}" for each in point.attributes)): point.as_double
        for point in points
    }


def test_a_collector_gets_tocsins_numbers_under_the_names_of_galaxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        export = MetricsExport("otlp", views=GALAXY)
        assert export.export(SAMPLES)
        export.close()

    exported = {
        name: points_of(metric)
        for name, metric in collector.metrics.items()
        if name.startswith("notification.")
    }
    assert exported == EXPECTED
    assert {view.name for view in GALAXY} == EXPECTED.keys()
    assert SAMPLES.keys() <= collector.metrics.keys()
    assert collector.metrics["notification.intent.outcomes"].sum.is_monotonic
    assert collector.metrics["notification.route_schedule.oldest_age_ms"].unit == "ms"


def test_without_samples_a_view_has_no_series() -> None:
    assert [view.read({}) for view in GALAXY] == [{}] * len(GALAXY)


def test_views_are_made_of_metrics_and_labels_that_exist_and_have_the_allowed_attributes() -> None:
    for view in GALAXY:
        assert set(view.attributes) <= ALLOWED
        for part in view.parts:
            metric = BY_NAME[part.metric]
            assert {*part.labels.values(), *part.only} <= set(metric.labels)
            assert metric.kind == view.kind
