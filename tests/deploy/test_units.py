"""The systemd units and the reverse proxy."""

import configparser
import re

import pytest

from tests.deploy.files import DEPLOY, commands
from tocsin.api.settings import HttpSettings
from tocsin.cli.run.serve import grace
from tocsin.settings import load_settings

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
LONG_RUNNING = [unit for unit in UNITS if "migrate" not in unit.name]
NGINX = (DEPLOY / "nginx.conf").read_text()


def service(unit: object) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of options have capitals
    parser.read(str(unit))
    return dict(parser["Service"])


def test_there_is_a_unit_for_each_process() -> None:
    run = {service(unit)["ExecStart"].removeprefix("/opt/tocsin/bin/tocsin ") for unit in UNITS}
    assert run == {"serve", "api", "worker", "relay", "migrate"} <= commands()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_as_its_own_user_with_secrets_from_a_file_and_few_rights(unit: object) -> None:
    options = service(unit)
    assert options["User"] == "tocsin"
    assert options["EnvironmentFile"] == "/etc/tocsin/tocsin.env"
    assert options["StateDirectory"] == "tocsin"
    assert options["CapabilityBoundingSet"] == ""
    assert options["ProtectSystem"] == "strict"
    assert options["NoNewPrivileges"] == "true"


@pytest.mark.parametrize("unit", LONG_RUNNING, ids=lambda unit: unit.name)
def test_a_unit_drains_before_it_is_killed_and_waits_before_it_is_restarted(unit: object) -> None:
    options = service(unit)
    settings = load_settings({})
    assert float(options["TimeoutStopSec"]) > grace(settings)
    assert options["KillMode"] == "mixed"
    # Systemd gives up after five starts within ten seconds.
    assert float(options["RestartSec"]) * 5 > 10
    assert int(options["LimitNOFILE"]) > settings.http.max_connections


def test_the_proxy_has_the_limits_of_the_api() -> None:
    http = HttpSettings()
    [megabytes] = re.findall(r"client_max_body_size (\d+)m;", NGINX)
    assert int(megabytes) * 2**20 == http.max_body_bytes
    idle = re.search(r"upstream tocsin \{.*?keepalive_timeout (\d+)s;.*?\n\}", NGINX, re.DOTALL)
    assert idle
    assert int(idle[1]) < http.header_seconds
    [body_seconds] = re.findall(r"client_body_timeout (\d+)s;", NGINX)
    assert int(body_seconds) <= http.body_seconds
    assert f"server 127.0.0.1:{http.port};" in NGINX
