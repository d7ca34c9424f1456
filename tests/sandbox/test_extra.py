"""Tocsin where only `tocsin[server]` is installed: everything runs but the sandbox, which names its extra."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
EXTRA_PACKAGES = ("aiosmtpd", "trustme")
WITHOUT_SANDBOX = (*EXTRA_PACKAGES, "tocsin.sandbox")
INSTALL = "pip install 'tocsin[sandbox]'"

HIDE_PACKAGES = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def find_unless_hidden(cls, name, path=None, target=None):
    hidden = any(name == each or name.startswith(each + ".") for each in {hidden!r})
    return None if hidden else find_spec(name, path, target)

PathFinder.find_spec = classmethod(find_unless_hidden)
"""

SHOW_HELP = """
from tocsin.cli.commands import app

for command in {commands!r}:
    try:
        app([command, "--help"])
    except SystemExit as done:
        assert done.code == 0, command
"""

IMPORT_EVERY_MODULE = """
import importlib, pkgutil, sys, tocsin

NEED_THE_SANDBOX = {
    "tocsin.cli.demo.first_notification", "tocsin.cli.demo.people", "tocsin.cli.demo.stand_ins",
    "tocsin.client.testing.server_process"
}
SANDBOX = ("tocsin.sandbox", "tocsin.cli.demo.page.")
for module in pkgutil.walk_packages(tocsin.__path__, "tocsin.", onerror=lambda name: None):
    if module.name not in NEED_THE_SANDBOX and not module.name.startswith(SANDBOX):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.startswith("tocsin.")))
"""


def run(folder: Path, *arguments: str, hidden: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run Python in a process where some packages are not installed."""
    (folder / "sitecustomize.py").write_text(HIDE_PACKAGES.format(hidden=tuple(hidden)))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_every_command_shows_its_help(tmp_path: Path) -> None:
    commands = ("serve", "api", "worker", "migrate", "relay", "send", "providers", "sandbox", "demo")

    done = run(tmp_path, "-c", SHOW_HELP.format(commands=commands), hidden=WITHOUT_SANDBOX)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: ") == len(commands)


def test_a_command_runs(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "tocsin.cli", "catalog", "check", hidden=WITHOUT_SANDBOX)

    assert done.returncode == 0, done.stderr


def test_every_other_module_can_be_imported(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", IMPORT_EVERY_MODULE, hidden=WITHOUT_SANDBOX)

    assert done.returncode == 0, done.stderr
    assert {"tocsin.compose", "tocsin.api.app", "tocsin.engine.worker"} <= set(done.stdout.split())
    assert "tocsin.sandbox" not in done.stdout


@pytest.mark.parametrize(
    ("module", "package"),
    [("tocsin.cli demo", "aiosmtpd"), ("tocsin.cli sandbox", "trustme"), ("tocsin.sandbox", "aiosmtpd")],
)
def test_what_needs_the_sandbox_names_its_extra(tmp_path: Path, module: str, package: str) -> None:
    done = run(tmp_path, "-m", *module.split(), hidden=[package])

    assert done.returncode in {1, 2}
    assert f"The sandbox needs {package}" in done.stderr
    assert INSTALL in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_server_fixture_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text("def test_server(tocsin_server):\n    pass\n")

    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", hidden=["trustme"])

    assert "1 error" in done.stdout, done.stdout + done.stderr
    assert "trustme" in done.stdout
    assert INSTALL in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_only_the_sandbox_extra_brings_its_packages() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = {
        name: (PROJECT / "requirements" / f"{name}.txt").read_text()
        for name in ("server", "sandbox", "dev", "bench")
    }

    for package in EXTRA_PACKAGES:
        assert not [each for each in extras["server"] if each.startswith(package)]
        assert [each for each in extras["sandbox"] if each.startswith(package)]
        assert [name for name, text in pinned.items() if f"\n{package}==" in f"\n{text}"] == [
            "sandbox",
            "dev",
            "bench",
        ]
