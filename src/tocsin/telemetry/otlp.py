"""Metrics as OpenTelemetry exports them."""

import time
from collections.abc import Callable, Iterator, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tocsin.telemetry.environment import Exporter
from tocsin.telemetry.instruments import Instrument, Kind, Series
from tocsin.telemetry.metrics import EVERY
from tocsin.telemetry.resource import own_resource
from tocsin.telemetry.samples import Samples, labels_of
from tocsin.telemetry.views import View

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class MetricsExport:
    """Exports samples, and views on them; the counts since the start of this process are cumulative."""

    def __init__(
        self, exporter: Exporter, clock_ns: Callable[[], int] = time.time_ns, *, views: Sequence[View] = ()
    ) -> None:
        self._exporter: MetricExporter = (
            OTLPMetricExporter() if exporter == "otlp" else ConsoleMetricExporter()
        )
        self._resource = own_resource()
        self._clock_ns = clock_ns
        self._views = views
        self._started = clock_ns()

    def export(self, samples: Samples) -> bool:
        """Export samples, which blocks; return whether that succeeded."""
        now = self._clock_ns()
        metrics = list(_metrics(samples, self._started, now))
        for view in self._views:
            metrics += _viewed(view, samples, self._started, now)
        scope = ScopeMetrics(InstrumentationScope("tocsin"), metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Close the connections."""
        self._exporter.shutdown()


def _metrics(samples: Samples, started: int, now: int) -> Iterator[Metric]:
    for metric in EVERY:
        if series := samples.get(metric.name):
            unit = "s" if metric.unit == "seconds" else "1"
            yield Metric(metric.name, metric.description, unit, _data(metric, series, started, now))


def _data(metric: Instrument, series: Series, started: int, now: int) -> Sum | Gauge | Histogram:
    if metric.kind == "histogram":
        return Histogram(
            [
                HistogramDataPoint(
                    attributes=labels_of(metric.name, labels),
                    start_time_unix_nano=started,
                    time_unix_nano=now,
                    count=int(sum(value[:-1])),
                    sum=value[-1],
                    bucket_counts=[int(count) for count in value[:-1]],
                    explicit_bounds=metric.bounds,
                    # Not recorded, and left out: the fields are optional in the protocol.
                    min=None,  # type: ignore[arg-type]
                    max=None,  # type: ignore[arg-type]
                )
                for labels, value in series.items()
                if isinstance(value, list)
            ],
            _CUMULATIVE,
        )
    points = [
        NumberDataPoint(labels_of(metric.name, labels), started, now, float(value))
        for labels, value in series.items()
        if not isinstance(value, list)
    ]
    return _numbers(metric.kind, points)


def _viewed(view: View, samples: Samples, started: int, now: int) -> Iterator[Metric]:
    if series := view.read(samples):
        points = [NumberDataPoint(attributes, started, now, value) for attributes, value in series.values()]
        yield Metric(view.name, view.description, view.unit, _numbers(view.kind, points))


def _numbers(kind: Kind, points: Sequence[NumberDataPoint]) -> Sum | Gauge:
    return Sum(points, _CUMULATIVE, is_monotonic=True) if kind == "counter" else Gauge(points)
