"""The machine a run was made on."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import msgspec
import psutil

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Machine(msgspec.Struct, frozen=True):
    """What a reader must know to compare the figures with their own."""

    cores: int
    processor: str
    memory_gib: float
    kernel: str
    python: str
    node: str | None


def describe() -> Machine:
    """Look at this machine."""
    return Machine(
        cores=CORES,
        processor=_processor(),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        node=_node(),
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _node() -> str | None:
    if shutil.which("node") is None:
        return None
    return subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
