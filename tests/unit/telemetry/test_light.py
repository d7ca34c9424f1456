"""A process without metrics and traces does not import what they need."""

import subprocess
import sys

CODE = """
import sys
import tocsin.cli.commands, tocsin.compose.worker, tocsin.cli.run.metrics, tocsin.engine.worker
print(*sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "prometheus_client")))
"""


def test_nothing_of_opentelemetry_and_prometheus_is_imported_until_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
