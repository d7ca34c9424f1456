"""The Helm chart: its values, and what its templates use of them."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.deploy.files import DEPLOY, ROOT, commands

CHART = DEPLOY / "helm/tocsin"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
TEMPLATES = {file.name: file.read_text() for file in sorted((CHART / "templates").iterdir())}
ALL = "\n".join(TEMPLATES.values())
PASSED_ON = {"settings", "annotations", "resources"}
"""Values that a template passes on as a whole, whatever is below them."""


def paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in tree.items():
        path = f"{above}.{name}".lstrip(".")
        yield path
        if isinstance(value, dict) and name not in PASSED_ON:
            yield from paths(value, path)


def test_the_values_satisfy_their_schema() -> None:
    assert [error.message for error in SCHEMA.iter_errors(VALUES)] == []


@pytest.mark.parametrize(
    "change",
    [
        # Helm reads numbers as floats: 4194304 would become 4.194304e+06.
        pytest.param({"settings": {"TOCSIN_HTTP__MAX_BODY_BYTES": 4_194_304}}, id="a number"),
        pytest.param({"settings": {"HTTP_PORT": "80"}}, id="no setting"),
        pytest.param({"replicas": 3}, id="an unknown value"),
        pytest.param({"stopSeconds": 0}, id="no time to drain"),
    ],
)
def test_the_schema_refuses(change: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid({**VALUES, **change})


def test_every_value_that_a_template_uses_exists_and_none_is_unused() -> None:
    known = set(paths(VALUES))
    direct = set(re.findall(r"\.Values\.([\w.]+)", ALL))
    # Of the parts that are deployed alike, by the name that they have in a template.
    alike = set(re.findall(r"[.$]values\.([\w.]+)", ALL))
    used = direct | {f"{part}.{each}" for part in ("api", "worker", "relay") for each in alike}
    assert direct <= known
    assert alike <= set(paths(VALUES["worker"]))
    assert {path for path in known if not any(f"{each}.".startswith(f"{path}.") for each in used)} == set()


def test_every_template_that_is_included_is_defined() -> None:
    defined = set(re.findall(r'define "([\w.]+)"', ALL))
    assert set(re.findall(r'include "([\w.]+)"', ALL)) == defined
    assert len(re.findall(r"\{\{-? (?:if|with|range|define)\b", ALL)) == len(
        re.findall(r"\{\{-? end \}\}", ALL)
    )


def test_pods_run_commands_of_tocsin() -> None:
    parts = set(re.findall(r'"part" "(\w+)"', ALL)) | set(re.findall(r"args: \[(\w+)\]", ALL))
    assert parts == {"api", "worker", "relay", "migrate"} <= commands()


def test_a_pod_has_time_to_drain_by_the_same_value_that_processes_drain_by() -> None:
    assert "terminationGracePeriodSeconds: {{ add .root.Values.stopSeconds 15 }}" in ALL
    for setting in ("TOCSIN_DISPATCH__STOP_SECONDS", "TOCSIN_HTTP__DRAIN_SECONDS"):
        assert f"- name: {setting}\n    value: {{{{ .Values.stopSeconds | quote }}}}" in ALL
    # Behind the settings of the values: the last variable of a name counts.
    assert ALL.index("range $name, $value := .Values.settings") < ALL.index("TOCSIN_DISPATCH__STOP_SECONDS")


def test_a_pod_that_starts_while_the_database_is_away_is_not_restarted() -> None:
    probes = dict(re.findall(r"(\w+)Probe:\n\s+httpGet: \{path: (/\w+)", ALL))
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_the_chart_is_of_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
