"""The dashboard and the alerts read only metrics and labels that exist; each alert has its runbook."""

import re
from pathlib import Path

import pytest

from tests.acceptance.telemetry.deployed import NAME, alert_rules, dashboard, expressions, wanted_names
from tocsin.telemetry.metrics import BY_NAME, EVERY

RUNBOOK = Path(__file__).parents[3] / "docs" / "guides" / "alarms.md"
SELECTOR = re.compile(r"\b(tocsin_\w+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
SCRAPED = {"job", "instance", "le"}


def labels_of(series: str) -> set[str]:
    """Return the labels of a series; those of a histogram end in what they count."""
    name = series if series in BY_NAME else re.sub(r"_(bucket|sum|count)$", "", series)
    return {*BY_NAME[name].labels, *SCRAPED}


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_reads_metrics_and_labels_that_exist(expression: str) -> None:
    for name, matchers in SELECTOR.findall(expression):
        given = {matcher.strip() for matcher in re.findall(r"(\w+)\s*[=!]~?", matchers)}
        assert given <= labels_of(name), expression
    known = set().union(*(labels_of(name) for name in NAME.findall(expression)))
    for grouping in GROUPING.findall(expression):
        assert {label.strip() for label in grouping.split(",")} <= known, expression
    assert expression.count("(") == expression.count(")")


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in wanted_names()} | wanted_names()

    assert [metric.name for metric in EVERY if metric.name not in bare] == []


def test_every_alert_has_a_severity_and_a_section_in_the_runbook() -> None:
    sections = set(re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE))
    rules = {rule["alert"]: rule for rule in alert_rules()}

    assert sections == rules.keys()
    assert len(rules) == len(alert_rules())
    for name, rule in rules.items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/guides/alarms.md#{name.lower()}"


def test_the_panels_of_the_dashboard_have_places_of_their_own() -> None:
    panels = dashboard()["panels"]
    taken = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(taken) == len(set(taken))
    assert len({panel["id"] for panel in panels}) == len(panels)
