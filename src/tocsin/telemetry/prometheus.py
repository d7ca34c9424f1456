"""The text that Prometheus scrapes."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tocsin.telemetry.instruments import Instrument, Value
from tocsin.telemetry.metrics import EVERY
from tocsin.telemetry.samples import Samples


class _Samples(Collector):
    """Samples in the form of the Prometheus client."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for metric in EVERY:
            if series := self._samples.get(metric.name):
                family = _family(metric)
                for labels, value in series.items():
                    _add(family, metric, labels, value)
                yield family


def render(samples: Samples, accept: str) -> tuple[bytes, str]:
    """Return samples in the format that the Accept header of a scrape asks for, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(_Samples(samples)), content_type


def _family(metric: Instrument) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    labels = list(metric.labels)
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.description, labels=labels)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.description, labels=labels)
        case "histogram":
            return HistogramMetricFamily(metric.name, metric.description, labels=labels)


def _add(
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily,
    metric: Instrument,
    labels: Sequence[str],
    value: Value,
) -> None:
    if isinstance(family, HistogramMetricFamily) and isinstance(value, list):
        bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(value[:-1]), strict=True)), value[-1])
    elif not isinstance(family, HistogramMetricFamily) and not isinstance(value, list):
        family.add_metric(labels, value)
    else:
        raise TypeError(f"{metric.name} is a {metric.kind}")
