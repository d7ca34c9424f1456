"""The values of all metrics at one moment, of one process or of a process tree."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from tocsin.telemetry.instruments import Gauge, Labels, Value
from tocsin.telemetry.metrics import BY_NAME, EVERY

Samples: TypeAlias = dict[str, dict[Labels, Value]]
"""The value of each series, by the name of its metric and its labels."""

_Encoded: TypeAlias = dict[str, list[tuple[Labels, float | list[float]]]]
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Encoded)
_measurements: list[Callable[[], None]] = []


def before_read(measure: Callable[[], None]) -> None:
    """Call this before the metrics of this process are read, to set gauges."""
    _measurements.append(measure)


def read_samples() -> Samples:
    """Read every metric of this process; a counter without labels begins at 0."""
    for measure in _measurements:
        measure()
    samples: Samples = {}
    for metric in EVERY:
        series = {labels: _copied(value) for labels, value in metric.read().items()}
        if series or (metric.kind == "counter" and not metric.labels):
            samples[metric.name] = series or {(): 0.0}
    return samples


def encode_samples(samples: Samples) -> bytes:
    """Encode samples as one line."""
    return _encoder.encode({name: list(series.items()) for name, series in samples.items()}) + b"\n"


def decode_samples(line: bytes) -> Samples:
    """Decode a line; metrics that this version does not have are left out.

    Raises msgspec.DecodeError or ValueError for what are no samples: they could not be added to others.
    """
    decoded = {name: series for name, series in _decoder.decode(line).items() if name in BY_NAME}
    for name, series in decoded.items():
        if not all(BY_NAME[name].has_series(labels, value) for labels, value in series):
            raise ValueError(f"{name} has other labels or values")
    return {name: dict(series) for name, series in decoded.items()}


def add_samples(total: Samples, more: Samples) -> None:
    """Add the samples of another process; some gauges are the largest of all processes instead."""
    for name, series in more.items():
        metric = BY_NAME[name]
        into = total.setdefault(name, {})
        for labels, value in series.items():
            known = into.get(labels)
            if known is None:
                into[labels] = _copied(value)
            elif isinstance(known, list) and isinstance(value, list):
                into[labels] = [one + other for one, other in zip(known, value, strict=True)]
            elif not isinstance(known, list) and not isinstance(value, list):
                into[labels] = max(known, value) if _is_largest(name) else known + value
            else:
                raise TypeError(f"{metric.name} is a {metric.kind}")


def without_gauges(samples: Samples) -> Samples:
    """Return what remains true of a process that has ended."""
    return {name: series for name, series in samples.items() if BY_NAME[name].kind != "gauge"}


class TreeSamples:
    """The samples of a process tree: each child reports its own now and then.

    Counters never go down: what a child that ended had counted is kept.
    """

    def __init__(self, own: Callable[[], Samples] = read_samples) -> None:
        self._own = own
        self._running: dict[int, Samples] = {}
        self._ended: Samples = {}

    def report(self, process_id: int, samples: Samples) -> None:
        """Record the latest samples of a child."""
        self._running[process_id] = samples

    def end(self, process_id: int) -> None:
        """Keep what a child that ended had counted."""
        add_samples(self._ended, without_gauges(self._running.pop(process_id, {})))

    def read(self) -> Samples:
        """Return the samples of all processes together."""
        total: Samples = {}
        for each in (self._own(), self._ended, *self._running.values()):
            add_samples(total, each)
        return total


def _copied(value: Value) -> Value:
    return value.copy() if isinstance(value, list) else value


def _is_largest(name: str) -> bool:
    metric = BY_NAME[name]
    return isinstance(metric, Gauge) and metric.largest


def labels_of(name: str, labels: Labels) -> Mapping[str, str]:
    """Return the labels of a series by their names."""
    return dict(zip(BY_NAME[name].labels, labels, strict=True))
