"""What the dashboard and the alert rules in `deploy/` ask of the metrics."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\btocsin_[a-z0-9_]+\b")


def alert_rules() -> list[dict[str, Any]]:
    """List the alert rules."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((DEPLOY / "grafana" / "tocsin.json").read_bytes())
    return found


def expressions() -> Iterator[str]:
    """List every expression of PromQL."""
    yield from (rule["expr"] for rule in alert_rules())
    board = dashboard()
    yield from (target["expr"] for panel in board["panels"] for target in panel.get("targets", ()))
    yield from (each["definition"] for each in board["templating"]["list"] if "definition" in each)


def wanted_names() -> set[str]:
    """Return the names of all series that the expressions read."""
    return {name for expression in expressions() for name in NAME.findall(expression)}
