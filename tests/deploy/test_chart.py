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
from tocsin.gateway.app import PATHS
from tocsin.gateway.settings import GatewaySettings
from tocsin.settings.load import load_settings

CHART = DEPLOY / "helm/tocsin"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
TEMPLATES = {file.name: file.read_text() for file in sorted((CHART / "templates").iterdir())}
ALL = "\n".join(TEMPLATES.values())
PARTS = ("api", "worker", "relay", "gateway", "mailer")
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
        pytest.param({"mailer": {**VALUES["mailer"], "settings": {}}}, id="a mailer without its schema"),
    ],
)
def test_the_schema_refuses(change: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid({**VALUES, **change})


def test_every_value_that_a_template_uses_exists_and_none_is_unused() -> None:
    known = set(paths(VALUES))
    direct = set(re.findall(r"\.Values\.([\w.]+)", ALL))
    # Of the parts that are deployed alike, by the name that they have in a template.
    alike = set(re.findall(r"[.$]values\.([\w.]+)", ALL))
    used = direct | {f"{part}.{each}" for part in PARTS for each in alike}
    assert direct <= known
    assert alike <= set(paths(VALUES["worker"]))
    # Of those that have Secrets and settings: the chart, and the mailer.
    own = set(re.findall(r"\.of\.(\w+)", ALL))
    used |= own | {f"mailer.{each}" for each in own}
    assert own <= VALUES.keys() & VALUES["mailer"].keys()
    assert {path for path in known if not any(f"{each}.".startswith(f"{path}.") for each in used)} == set()


def test_every_template_that_is_included_is_defined() -> None:
    defined = set(re.findall(r'define "([\w.]+)"', ALL))
    assert set(re.findall(r'include "([\w.]+)"', ALL)) == defined
    assert len(re.findall(r"\{\{-? (?:if|with|range|define)\b", ALL)) == len(
        re.findall(r"\{\{-? end \}\}", ALL)
    )


def test_pods_run_commands_of_tocsin() -> None:
    parts = set(re.findall(r'"part" "(\w+)"', ALL)) | set(re.findall(r"args: \[(\w+)\]", ALL))
    assert parts == {*PARTS, "migrate"} <= commands()


def test_what_is_optional_is_off_and_the_mailer_has_secrets_and_a_schema_of_its_own() -> None:
    assert [VALUES[part]["enabled"] for part in ("relay", "gateway", "mailer")] == [False] * 3
    given = re.findall(r'"of" (\.[\w.]+) "(?:part|name)" "([\w-]+)"', ALL)
    assert {part for own, part in given if own == ".Values.mailer"} == {"mailer", "mailer-migrate"}
    assert {part for own, part in given if own == ".Values"} == {*PARTS, "migrate"} - {"mailer"}
    settings = load_settings(VALUES["mailer"]["settings"])
    assert settings.schema != load_settings(VALUES["settings"]).schema


def test_the_gateway_is_reached_and_probed_on_its_own_ports() -> None:
    gateway = GatewaySettings()
    [(port, probes)] = re.findall(r'"part" "gateway" .*"port" (\d+) "probes" (\d+)\)', ALL)
    assert int(port) == gateway.port
    assert f"TOCSIN_PROBES__PORT={probes}" in (DEPLOY / "Dockerfile").read_text()
    annotations = VALUES["gateway"]["ingress"]["annotations"]
    prefix = "nginx.ingress.kubernetes.io"
    assert annotations[f"{prefix}/proxy-buffering"] == "off"
    assert annotations[f"{prefix}/enable-access-log"] == "false"
    assert float(annotations[f"{prefix}/proxy-read-timeout"]) > gateway.ping_seconds
    [path] = re.findall(r'"part" "gateway" "path" "(.*?)"', ALL)
    assert all(f"{route}/".startswith(f"{path}/") for route in PATHS.values())


def test_a_pod_has_time_to_drain_by_the_same_value_that_processes_drain_by() -> None:
    assert "terminationGracePeriodSeconds: {{ add .root.Values.stopSeconds 15 }}" in ALL
    for part in ("DISPATCH__STOP", "HTTP__DRAIN", "GATEWAY__DRAIN"):
        assert f"- name: TOCSIN_{part}_SECONDS\n    value: {{{{ .root.Values.stopSeconds | quote }}}}" in ALL
    # Behind the settings of the values: the last variable of a name counts.
    assert ALL.index("range $name, $value := .of.settings") < ALL.index("TOCSIN_DISPATCH__STOP_SECONDS")


def test_a_pod_that_starts_while_the_database_is_away_is_not_restarted() -> None:
    probes = dict(re.findall(r"(\w+)Probe:\n\s+httpGet: \{path: (/\w+)", ALL))
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_the_chart_is_of_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
