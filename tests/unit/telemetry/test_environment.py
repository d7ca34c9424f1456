"""The standard variables of OpenTelemetry: what they switch on, and what cannot be used."""

from collections.abc import Mapping

import pytest

from tocsin.domain.errors import SettingsError
from tocsin.telemetry.environment import Telemetry, read_environment

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, Telemetry()),
        ({"OTEL_SERVICE_NAME": "mail"}, Telemetry()),
        (ENDPOINT, Telemetry("otlp", "otlp")),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "none"}, Telemetry("otlp", None)),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, Telemetry()),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, Telemetry("otlp", None)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/v1/metrics"}, Telemetry(None, "otlp")),
        ({"OTEL_TRACES_EXPORTER": "console"}, Telemetry("console", None)),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "prometheus"}, Telemetry("otlp", None)),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "1500"},
            Telemetry(None, "otlp", 1.5),
        ),
    ],
)
def test_an_endpoint_or_an_exporter_switches_on(environ: Mapping[str, str], wanted: Telemetry) -> None:
    assert read_environment(environ) == wanted


def test_every_value_that_cannot_be_used_is_named() -> None:
    environ = ENDPOINT | {
        "OTEL_TRACES_EXPORTER": "zipkin",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc",
        "OTEL_METRIC_EXPORT_INTERVAL": "0",
    }
    with pytest.raises(SettingsError) as raised:
        read_environment(environ)

    assert [fault.field for fault in raised.value.faults] == [
        "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        "OTEL_METRIC_EXPORT_INTERVAL",
    ]
