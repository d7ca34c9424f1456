"""What the standard `OTEL_*` variables ask for.

OpenTelemetry reads most of them itself: endpoints, headers, timeouts, samplers, the name of the service. Here
is decided whether anything is exported at all, which takes an exporter or an endpoint: by default nothing is.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault

Exporter: TypeAlias = Literal["otlp", "console"]

_EXPORTERS = {"otlp", "console", "none"}
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "http/protobuf"
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"


class Telemetry(msgspec.Struct, frozen=True):
    """Where traces and metrics are exported to, and how often metrics are."""

    traces: Exporter | None = None
    metrics: Exporter | None = None
    metrics_every: float = 60.0


def read_environment(environ: Mapping[str, str]) -> Telemetry:
    """Read the variables, or raise SettingsError with everything that cannot be used."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Telemetry()
    if faults := list(_faults(environ)):
        raise SettingsError("The variables of OpenTelemetry cannot be used:", faults)
    return Telemetry(
        _exporter(environ, "TRACES"),
        _exporter(environ, "METRICS"),
        float(environ.get(_INTERVAL) or 60_000) / 1_000,
    )


def _exporter(environ: Mapping[str, str], signal: str) -> Exporter | None:
    wanted = environ.get(f"OTEL_{signal}_EXPORTER") or ""
    if signal == "METRICS" and wanted == "prometheus":
        # That is the endpoint of TOCSIN_METRICS__PORT.
        return None
    has_endpoint = bool(environ.get(_ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))
    match wanted:
        case "otlp" | "console":
            return wanted
        case "" if has_endpoint:
            return "otlp"
        case _:
            return None


def _faults(environ: Mapping[str, str]) -> Iterator[Fault]:
    for signal in ("TRACES", "METRICS"):
        name = f"OTEL_{signal}_EXPORTER"
        known = sorted(_EXPORTERS | ({"prometheus"} if signal == "METRICS" else set()))
        if environ.get(name) and environ[name] not in known:
            yield Fault(field=name, code="invalid", message=f"must be one of {', '.join(known)}")
        for protocol in ("OTEL_EXPORTER_OTLP_PROTOCOL", f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"):
            if environ.get(protocol, _PROTOCOL) != _PROTOCOL and _exporter(environ, signal) == "otlp":
                yield Fault(field=protocol, code="invalid", message=f"must be {_PROTOCOL}")
    interval = environ.get(_INTERVAL) or "60000"
    if not interval.isdecimal() or not int(interval):
        message = "must be a number of milliseconds above 0"
        yield Fault(field=_INTERVAL, code="invalid", message=message)
