"""Metrics under the names of another system, computed from Tocsin's own samples when they are exported."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from tocsin.telemetry.instruments import Kind, Labels
from tocsin.telemetry.metrics import BY_NAME
from tocsin.telemetry.samples import Samples, labels_of

MILLISECONDS: Final = 1_000.0


class Part(msgspec.Struct, frozen=True):
    """The series of one of Tocsin's metrics that count in a view.

    `labels` has the label behind each attribute, `constants` attributes that are the same for all of them;
    `only` has the values that a label must have.
    """

    metric: str
    labels: Mapping[str, str] = {}
    constants: Mapping[str, str] = {}
    only: Mapping[str, Collection[str]] = {}

    def has(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series counts."""
        return all(labels[name] in values for name, values in self.only.items())

    def attributes_of(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the attributes of a series."""
        return {name: labels[label] for name, label in self.labels.items()} | dict(self.constants)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of another name: what its parts come to by attributes, added up or the `largest`."""

    name: str
    description: str
    parts: tuple[Part, ...]
    largest: bool = False
    factor: float = 1.0

    @property
    def kind(self) -> Kind:
        """The kind of the metrics that it is computed from."""
        return BY_NAME[self.parts[0].metric].kind

    @property
    def unit(self) -> str:
        """The unit as OpenTelemetry writes it."""
        return "ms" if self.factor == MILLISECONDS else "1"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of all attributes that series of the view may have."""
        return tuple(dict.fromkeys(name for part in self.parts for name in (*part.labels, *part.constants)))

    def read(self, samples: Samples) -> dict[Labels, tuple[dict[str, str], float]]:
        """Compute the attributes and the value of each series; there is none where the parts have none."""
        combine: Callable[[Iterable[float]], float] = max if self.largest else sum
        found: dict[Labels, tuple[dict[str, str], list[float]]] = {}
        for part in self.parts:
            for series, value in samples.get(part.metric, {}).items():
                labels = labels_of(part.metric, series)
                if isinstance(value, list) or not part.has(labels):
                    continue
                attributes = part.attributes_of(labels)
                key = tuple(f"{name}={each}" for name, each in attributes.items())
                found.setdefault(key, (attributes, []))[1].append(value * self.factor)
        return {key: (attributes, combine(values)) for key, (attributes, values) in found.items()}


_TYPE = {"notification_type": "type"}
_FAILURE = {"channel": "channel", "failure_classification": "code"}

GALAXY: Final = (
    View(
        name="notification.intent.outcomes",
        description="Intents that were accepted, or answered as duplicates.",
        parts=(
            Part("tocsin_notifications_accepted_total", _TYPE, {"outcome": "accepted"}),
            Part("tocsin_intents_duplicate_total", _TYPE, {"outcome": "duplicate"}),
        ),
    ),
    View(
        name="notification.intent.malformed",
        description="Intents that were refused, idempotency conflicts and unknown recipients included.",
        parts=(Part("tocsin_intents_refused_total", {**_TYPE, "failure_code": "code"}),),
    ),
    View(
        name="notification.user_enrichment.attempts",
        description="People looked up in the user service: found, missing or failed.",
        parts=(Part("tocsin_directory_lookups_total", {"result": "result"}),),
    ),
    View(
        name="notification.route.publish_attempts",
        description="Attempts to publish a route: published or failed.",
        parts=(
            Part(
                "tocsin_deliveries_settled_total",
                {"channel": "channel"},
                {"result": "published"},
                only={"state": ("sent",)},
            ),
            Part("tocsin_attempts_failed_total", _FAILURE, {"result": "failed"}),
        ),
    ),
    View(
        name="notification.route.retries",
        description="Attempts that failed and after which a later one is scheduled.",
        parts=(Part("tocsin_attempts_failed_total", _FAILURE, only={"state": ("retrying",)}),),
    ),
    View(
        name="notification.route.dead_letters",
        description="Routes that became dead letters.",
        parts=(Part("tocsin_attempts_failed_total", _FAILURE, only={"state": ("dead", "rejected")}),),
    ),
    View(
        name="notification.route_schedule.depth",
        description="Routes that wait to be published, now or later; counted up to 10,000 a lane.",
        parts=(Part("tocsin_queue_deliveries"),),
    ),
    View(
        name="notification.route_schedule.oldest_age_ms",
        description="How long the oldest route that is due waits; 0 if none is due.",
        parts=(Part("tocsin_queue_oldest_seconds"),),
        largest=True,
        factor=MILLISECONDS,
    ),
    View(
        name="notification.intent_stream.oldest_unprocessed_age_ms",
        description="Age of the oldest intent of the stream that was neither accepted nor refused; or 0.",
        parts=(Part("tocsin_stream_lag_seconds"),),
        largest=True,
        factor=MILLISECONDS,
    ),
)
"""The names that the galaxy notification service exports its metrics under."""
