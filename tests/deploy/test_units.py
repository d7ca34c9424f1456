"""The systemd units and the reverse proxy."""

import configparser
import re
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, commands
from tocsin.api.person import devices, fisa_devices, inbox, receipts
from tocsin.api.settings import HttpSettings
from tocsin.cli.run.serve import grace
from tocsin.gateway.app import PATHS
from tocsin.gateway.inbox import live
from tocsin.gateway.process import SPARE_CONNECTIONS
from tocsin.gateway.settings import GatewaySettings
from tocsin.settings.load import load_settings

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
LONG_RUNNING = [unit for unit in UNITS if "migrate" not in unit.name]
NGINX = (DEPLOY / "nginx.conf").read_text()


def service(unit: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of options have capitals
    parser.read(unit)
    return dict(parser["Service"])


def test_there_is_a_unit_for_each_process() -> None:
    run = {service(unit)["ExecStart"].removeprefix("/opt/tocsin/bin/tocsin ") for unit in UNITS}
    assert run == {"serve", "api", "worker", "relay", "gateway", "mailer", "migrate"} <= commands()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_as_its_own_user_with_secrets_from_a_file_and_few_rights(unit: Path) -> None:
    options = service(unit)
    assert options["User"] == "tocsin"
    assert options["StateDirectory"] == "tocsin"
    assert options["CapabilityBoundingSet"] == ""
    assert options["ProtectSystem"] == "strict"
    assert options["NoNewPrivileges"] == "true"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_mailer_and_its_migrations_read_neither_the_variables_nor_the_file_of_the_server(
    unit: Path,
) -> None:
    options = service(unit)
    folder, file = (
        ("/etc/tocsin/mailer", "mailer.env") if "mailer" in unit.name else ("/etc/tocsin", "tocsin.env")
    )
    assert options["WorkingDirectory"] == folder == f"/etc/{options['ConfigurationDirectory']}"
    assert options["EnvironmentFile"] == f"/etc/tocsin/{file}"
    assert ("TOCSIN_SCHEMA=mailer" in options.get("Environment", "").split()) is ("mailer" in unit.name)


def test_units_on_one_machine_listen_on_different_ports() -> None:
    ports = [str(HttpSettings().port), str(GatewaySettings().port)]
    for unit in UNITS:
        for port in re.findall(r"TOCSIN_PROBES__PORT=(\S+)", service(unit).get("Environment", "")):
            ports += [port.replace("%i", str(i)) for i in range(1, 10)] if "%i" in port else [port]
    assert len(ports) == len(set(ports)) == 2 + 3 + 9


@pytest.mark.parametrize("unit", LONG_RUNNING, ids=lambda unit: unit.name)
def test_a_unit_drains_before_it_is_killed_and_waits_before_it_is_restarted(unit: Path) -> None:
    options = service(unit)
    settings = load_settings({})
    assert float(options["TimeoutStopSec"]) > grace(settings)
    assert options["KillMode"] == "mixed"
    # Systemd gives up after five starts within ten seconds.
    assert float(options["RestartSec"]) * 5 > 10
    assert int(options["LimitNOFILE"]) > settings.http.max_connections
    if "gateway" in options["ExecStart"]:
        assert float(options["TimeoutStopSec"]) > settings.gateway.drain_seconds
        assert int(options["LimitNOFILE"]) > settings.gateway.max_sessions + SPARE_CONNECTIONS


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


def test_the_proxy_and_the_chart_reach_the_calls_for_devices_also_at_the_paths_of_fisa() -> None:
    chart = (DEPLOY / "helm/tocsin/templates/service.yaml").read_text()
    [first, second] = re.findall(r'"part" "api" "path" "(.*?)" "also" "(.*?)"', chart)[0]
    [limited] = re.findall(r"location ~ (\S+) \{\n\s+limit_req zone=tocsin_people", NGINX)
    for module in (inbox, receipts):
        assert all(re.match(limited, path) for each in module.routes.handlers for path in each.paths)
    for module in (devices, fisa_devices):
        for handler in module.routes.handlers:
            [path] = handler.paths
            assert re.match(limited, path), path
            assert path.startswith((first, f"{second}/")), path


def test_the_proxy_passes_live_inboxes_on_at_once_and_logs_no_token() -> None:
    location = re.search(r"location ~ (\^/v1/inbox\S+) \{(.*?)\n    \}", NGINX, re.DOTALL)
    assert location
    assert all(re.match(location[1], path) for path in live.PATHS.values())
    for option in ("proxy_buffering off;", "access_log off;", "proxy_set_header Upgrade $http_upgrade;"):
        assert option in location[2]
    # The first regular expression that matches decides.
    assert location.start() < NGINX.index("limit_req zone=tocsin_people")


def test_the_proxy_passes_events_on_at_once_and_logs_no_token() -> None:
    gateway = GatewaySettings()
    location = re.search(r"location /v1/events \{(.*?)\n    \}", NGINX, re.DOTALL)
    assert location
    options = location[1]
    assert all(path.startswith("/v1/events") for path in PATHS.values())
    assert f"upstream tocsin_gateway {{\n    server 127.0.0.1:{gateway.port};" in NGINX
    assert "proxy_pass http://tocsin_gateway;" in options
    assert "proxy_buffering off;" in options
    # Each line of the error log has the query too, and so has the log of what is redirected to TLS.
    assert "access_log off;" in options
    assert re.search(r"error_log \S+ crit;", options)
    assert re.search(r"listen 80;.*?access_log off;.*?return 308", NGINX, re.DOTALL)
    assert "proxy_set_header Upgrade $http_upgrade;" in options
    # Over HTTP/1.1 a browser's tabs with events would use up its connections.
    assert re.findall(r"listen \S*443 (.*);", NGINX) == ["ssl http2"] * 2
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", options)
    assert int(seconds) > gateway.ping_seconds
