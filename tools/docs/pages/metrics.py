"""The reference of metrics, from their definitions."""

from collections.abc import Iterable

from tocsin.telemetry.instruments import Histogram, Instrument
from tocsin.telemetry.metrics import EVERY, FROM_DATABASE
from tocsin.telemetry.views import GALAXY, Part, View
from tools.docs.markdown import NONE, code, codes, page, table

INTRO = (
    "What Tocsin counts, under the same names for Prometheus (`TOCSIN_METRICS__PORT`) and for OpenTelemetry; "
    "[Metrics and traces](../guides/metrics.md) explains how to switch them on. Labels are types, channels, "
    "providers and codes, never people, addresses, hosts or tokens. A metric has at most {most:,} series; "
    "beyond that, every label of further ones is `other`."
)
COUNTED = (
    "Of every process since it started. In a process tree they are added up; a process that died keeps what "
    "it had counted."
)
DATABASE = (
    "Read from the database when somebody scrapes, at most every five seconds. Every process that is scraped "
    "shows the same, so take the `max` over processes, not the `sum`. While the database does not answer, "
    "only `tocsin_database_up` is there."
)
VIEWS = (
    "With `TOCSIN_METRICS__NAMES=galaxy`, which the galaxy profile sets, the exporters of "
    "OpenTelemetry have these names too, beside Tocsin's own. They are computed from the metrics in the last "
    "column when they are exported; a label behind an attribute of another name is in parentheses."
)


def metrics_page() -> str:
    """Build the page."""
    counted = [metric for metric in EVERY if metric not in FROM_DATABASE]
    return page(
        "Metrics",
        INTRO.format(most=max(metric.most_series for metric in EVERY)),
        "## Of the processes",
        COUNTED,
        _table(counted),
        "## Of the database",
        DATABASE,
        _table(FROM_DATABASE),
        "## Buckets",
        table(
            ["histogram", "upper bounds"],
            (
                [code(metric.name), ", ".join(f"{bound:g}" for bound in metric.bounds)]
                for metric in counted
                if isinstance(metric, Histogram)
            ),
        ),
        "## Names of the galaxy service",
        VIEWS,
        table(
            ["name", "kind", "attributes", "meaning", "computed from"],
            (
                [code(view.name), view.kind, _attributes(view), view.description, _sources(view)]
                for view in GALAXY
            ),
        ),
    )


def _attributes(view: View) -> str:
    behind = {name: label for part in view.parts for name, label in part.labels.items()}
    shown = (
        code(name) if behind.get(name, name) == name else f"{code(name)} ({code(behind[name])})"
        for name in view.attributes
    )
    return ", ".join(shown) or NONE


def _sources(view: View) -> str:
    sources = "; ".join(map(_source, view.parts))
    return f"the largest of {sources}, in milliseconds" if view.largest else sources


def _source(part: Part) -> str:
    chosen = "".join(f" with {code(name)} {' or '.join(map(code, only))}" for name, only in part.only.items())
    constant = "".join(f": {code(name)} = {code(value)}" for name, value in part.constants.items())
    return f"{code(part.metric)}{chosen}{constant}"


def _table(metrics: Iterable[Instrument]) -> str:
    return table(
        ["metric", "kind", "labels", "meaning"],
        ([code(metric.name), metric.kind, codes(metric.labels), metric.description] for metric in metrics),
    )
