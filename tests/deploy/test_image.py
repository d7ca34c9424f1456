"""The image and the compose file."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires
from typing import Any

import pytest
import yaml

from tests.acceptance.processes import free_port
from tests.deploy.files import DEPLOY, ROOT, commands, variables
from tocsin.catalog.load import shipped_catalog
from tocsin.cli.run.mailer import mailer_faults
from tocsin.cli.run.serve import grace
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings

DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
STAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "postgres"}
SETTING = re.compile(r"\bTOCSIN_[A-Z0-9_]+\b")
TEXTS = {
    str(file.relative_to(DEPLOY)): file.read_text()
    for file in sorted(DEPLOY.rglob("*"))
    if file.is_file() and file.suffix not in {".json", ".md", ".sh"}
}


def instruction(name: str, stage: str) -> list[str]:
    return re.findall(rf"^{name}\s+(.*)$", stage, re.MULTILINE)


OF_OTHER_MACHINES = {"colorama", "async-timeout"}
"""Pinned for Windows, or for a Python before 3.11.3, alone."""


def removed_packages() -> set[str]:
    [line] = re.findall(r"uninstall --yes (editables.*?) &&", DOCKERFILE)
    return set(line.split())


def pinned() -> dict[str, str]:
    text = (ROOT / "requirements/server.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("file", TEXTS)
def test_every_setting_in_a_file_exists(file: str) -> None:
    unknown: list[str] = []
    for name in set(SETTING.findall(TEXTS[file])):
        try:
            load_settings({name: "1"})
        except SettingsError as error:
            unknown += (fault.field for fault in error.faults if fault.code == "unknown")
    assert unknown == []


def test_the_last_stage_runs_as_a_numbered_user_and_installs_nothing() -> None:
    assert instruction("USER", STAGES[-1]) == ["10001:10001"]
    assert "pip" not in STAGES[-1]
    assert instruction("COPY", STAGES[-1]) == ["--from=build /opt/tocsin /opt/tocsin"]


def test_packages_are_installed_by_their_hashes_before_the_source_is_copied() -> None:
    build = STAGES[0]
    assert build.index("--require-hashes --requirement requirements/server.txt") < build.index("COPY src")
    for sources in instruction("COPY", build):
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        for source in sources.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored


def test_nothing_that_stays_in_the_image_needs_what_is_removed() -> None:
    removed = removed_packages()
    assert {"editables", "hatchling"} <= removed <= pinned().keys()
    needs = {
        (name, re.split(r"[\s;<>=!~\[(]", need)[0].lower())
        for name in pinned().keys() - removed - OF_OTHER_MACHINES
        for need in requires(name) or ()
        if "extra ==" not in need
    }
    assert [pair for pair in needs if pair[1] in removed] == []


@contextmanager
def answering(port: int, status: int) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("listens", "status", "healthy"), [("api", 200, True), ("worker", 200, True), ("api", 503, False)]
)
def test_the_health_check_asks_whichever_process_runs(*, listens: str, status: int, healthy: bool) -> None:
    [check] = re.findall(r"^HEALTHCHECK.*? CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    ports = {"api": free_port(), "worker": free_port()}
    code = json.loads(check)[2].replace("8470", str(ports["api"])).replace("8471", str(ports["worker"]))
    with answering(ports[listens], status), pytest.raises(SystemExit) as ended:
        exec(code, {})  # noqa: S102 - the code of the Dockerfile
    assert (not ended.value.code) is healthy


def test_every_service_runs_a_command_with_no_rights_and_no_writable_root() -> None:
    expected = {name: [name] for name in ("migrate", "api", "worker", "relay", "gateway", "mailer")}
    assert expected.keys() <= commands()
    assert {name: service["command"] for name, service in OURS.items()} == {
        **expected,
        "mailer-migrate": ["migrate"],
    }
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_services_start_after_the_migrations_and_have_time_to_drain() -> None:
    assert not OURS["gateway"]["depends_on"]  # It has no database.
    for name in OURS.keys() - {"migrate", "mailer-migrate", "gateway"}:
        migration = "mailer-migrate" if name == "mailer" else "migrate"
        assert OURS[name]["depends_on"] == {migration: {"condition": "service_completed_successfully"}}
        assert float(OURS[name]["stop_grace_period"].removesuffix("s")) >= grace(load_settings({}))


def test_what_is_optional_starts_by_its_profile() -> None:
    profiles = {name: service["profiles"] for name, service in OURS.items() if "profiles" in service}
    assert profiles == {
        "relay": ["outbox"],
        "gateway": ["gateway"],
        "mailer": ["mailer"],
        "mailer-migrate": ["mailer"],
    }


def test_the_mailer_starts_with_its_own_file_in_its_own_schema_and_sees_nothing_of_the_server() -> None:
    for name in ("mailer", "mailer-migrate"):
        service = OURS[name]
        assert service["env_file"] == "mailer.env"
        own = {name: value for name, value in service["environment"].items() if "${" not in value}
        given = {**variables("mailer.env.example"), **own}
        assert given["TOCSIN_CATALOG"] == "/etc/tocsin/catalog"
        settings = load_settings({**given, "TOCSIN_CATALOG": str(shipped_catalog())})
        assert settings.schema != load_settings({}).schema
        assert list(mailer_faults(settings)) == []
    assert OURS["api"]["env_file"] == "tocsin.env"


def test_variables_of_the_compose_file_are_no_settings_which_would_stop_the_start() -> None:
    used = re.findall(r"\$\{(\w+)", TEXTS["compose.yaml"])
    assert used
    assert [name for name in used if name.startswith("TOCSIN_")] == []
