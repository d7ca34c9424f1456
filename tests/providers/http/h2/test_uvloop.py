"""The loop of the worker is uvloop's, whose transports and TLS are its own."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = Path(__file__).parents[4]


def test_connections_and_requests_are_the_same_on_uvloop() -> None:
    files = [
        FOLDER / name for name in ("test_dial.py", "test_failures.py", "test_pool.py", "test_requests.py")
    ]
    plugin = ("-p", "tests.providers.http.h2.on_uvloop", "-p", "no:cacheprovider", "-n", "0")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-5_000:]
