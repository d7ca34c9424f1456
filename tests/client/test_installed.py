"""`pip install .` into an empty environment: how much it brings, and whether the client works there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.client import Tocsin
from tocsin.client.testing import RunningTocsin

PROJECT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "installed"
TOOLS = {"pip", "setuptools"}
OUT_OF_REACH = ("No matching distribution", "Could not fetch", "Failed to establish", "ConnectionError")

pytestmark = pytest.mark.timeout(600)


class Environment:
    """An environment of its own with only what pip put there."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self._pip = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)

    def install(self, *what: str) -> None:
        done = subprocess.run(
            [*self._pip, "install", "--quiet", "--no-compile", *what],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if done.returncode and any(words in done.stderr for words in OUT_OF_REACH):
            pytest.skip(
                f"NOT TESTED: pip reaches no package index, so {what} is not installed: {done.stderr}"
            )
        assert done.returncode == 0, done.stderr

    def packages(self) -> set[str]:
        listed = subprocess.check_output([*self._pip, "list", "--format=json"], text=True, timeout=60)
        return {package["name"] for package in json.loads(listed)} - TOOLS

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        return subprocess.check_output(
            [self.bin / program, *arguments],
            env={**_bare(), **environment},
            cwd=PROGRAMS,
            text=True,
            timeout=120,
        )


def _bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}


def _producer(server: RunningTocsin) -> dict[str, str]:
    return {"PRODUCER_URL": server.base_url, "PRODUCER_KEY": server.api_key}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with only Tocsin installed."""
    made = Environment(tmp_path_factory.mktemp("installed") / "venv")
    made.install(str(PROJECT))
    return made


@pytest.fixture(scope="module")
def light_packages(empty: Environment) -> set[str]:
    """List what Tocsin alone installed, before anything else is installed."""
    return empty.packages()


@pytest.fixture(scope="module")
def with_frameworks(empty: Environment, light_packages: set[str]) -> Environment:
    """Install Celery, Flask and pytest into the same environment."""
    assert light_packages
    empty.install("celery", "flask", "pytest")
    return empty


def test_it_brings_few_packages(light_packages: set[str]) -> None:
    assert {"tocsin", "msgspec", "pyreqwest"} <= light_packages
    assert len(light_packages) < 10


def test_the_client_works_there(empty: Environment, tocsin_server: RunningTocsin, client: Tocsin) -> None:
    code = (
        "import os; from tocsin.client import Tocsin\n"
        "with Tocsin(os.environ['PRODUCER_URL'], os.environ['PRODUCER_KEY']) as tocsin:\n"
        "    sent = tocsin.send('new_customer', users=['42'], payload={'customer_name': 'Ada'})\n"
        "    print(sent.notification_id)"
    )

    said = empty.run("python", "-c", code, **_producer(tocsin_server))

    assert client.show(said.strip()).payload == {"customer_name": "Ada"}


def test_the_command_line_says_how_to_get_the_server(empty: Environment) -> None:
    done = subprocess.run(
        [empty.bin / "tocsin", "serve"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert "pip install 'tocsin[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_plug_in_works_there_as_far_as_it_can(with_frameworks: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(
        "def test_fake(tocsin_fake):\n"
        "    tocsin_fake.send('t', users=['42'])\n"
        "    tocsin_fake.only(type='t')\n"
        "def test_server(tocsin_server):\n    pass\n"
    )

    done = subprocess.run(
        [with_frameworks.bin / "pytest", "-q", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "pip install 'tocsin[sandbox]'" in done.stdout


def test_a_flask_view_sends(
    with_frameworks: Environment, tocsin_server: RunningTocsin, client: Tocsin, user_id: str
) -> None:
    phone = tocsin_server.phone(user_id)

    said = with_frameworks.run("python", "shop.py", user_id, **_producer(tocsin_server))

    assert len(set(said.split())) == 5
    assert {client.show(each).payload["customer_name"] for each in said.split()} == {"Flask"}
    assert len(phone.wait_for(5)) == 5


@pytest.fixture
def celery_worker(
    with_frameworks: Environment, tocsin_server: RunningTocsin, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """Run a real worker with the pool that Celery uses by default, and give the settings of its clients."""
    environment = {"QUEUE_FOLDER": str(tmp_path), **_producer(tocsin_server)}
    arguments = ["-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "1", "--loglevel", "WARNING"]
    worker = subprocess.Popen(
        [with_frameworks.bin / "celery", *arguments], env={**_bare(), **environment}, cwd=PROGRAMS
    )
    try:
        yield environment | {"WORKER_PID": str(worker.pid)}
    finally:
        worker.send_signal(signal.SIGQUIT)
        worker.wait(60)


def test_a_celery_task_sends(
    with_frameworks: Environment,
    celery_worker: dict[str, str],
    tocsin_server: RunningTocsin,
    client: Tocsin,
    user_id: str,
) -> None:
    phone = tocsin_server.phone(user_id)
    code = f"from tasks import welcome; print(*welcome.delay({user_id!r}).get(timeout=60))"

    notification_id, pid = with_frameworks.run("python", "-c", code, **celery_worker).split()

    assert pid != celery_worker["WORKER_PID"]
    assert client.show(notification_id).payload == {"customer_name": "Celery"}
    assert len(phone.wait_for()) == 1
