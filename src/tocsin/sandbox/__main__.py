"""A sandbox in a process of its own: `python -m tocsin.sandbox '{"http_port": 8085}'`.

The one argument holds the settings as JSON. Once ready, a line of JSON with the addresses is printed.
"""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tocsin.domain.errors import TocsinError
from tocsin.sandbox.server import Sandbox, run_sandbox
from tocsin.sandbox.settings import SandboxSettings


def _as_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)


def _announce(sandbox: Sandbox) -> None:
    addresses = {
        "http_url": sandbox.http_url,
        "https_url": sandbox.https_url,
        "smtp_port": sandbox.smtp_port,
        "smtps_port": sandbox.smtps_port,
        "ca_file": str(sandbox.ca_file),
    }
    sys.stdout.write(msgspec.json.encode(addresses).decode() + "\n")
    sys.stdout.flush()


async def _serve(settings: SandboxSettings) -> None:
    serving = asyncio.ensure_future(run_sandbox(settings, on_ready=_announce))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main() -> int:
    """Run until told to stop."""
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    try:
        settings = msgspec.json.decode(text, type=SandboxSettings, dec_hook=_as_path)
        uvloop.run(_serve(settings))
    except (msgspec.DecodeError, TocsinError) as error:
        sys.stderr.write(f"tocsin.sandbox: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
