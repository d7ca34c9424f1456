"""A sandbox in its own process: `python -m tocsin.sandbox '{"http_port": 8085}'`.

The one argument holds the settings as JSON. Once ready, it prints a line of JSON with the addresses.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from tocsin.domain.errors import TocsinError
from tocsin.sandbox.server import Sandbox
from tocsin.sandbox.settings import SandboxSettings


def _decode_path(type_: type, value: Any) -> Any:
    if type_ is Path:
        return Path(value)
    raise NotImplementedError(type_)


def _print_addresses(sandbox: Sandbox) -> None:
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
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Sandbox(settings) as sandbox:
        _print_addresses(sandbox)
        await stop.wait()


def main() -> int:
    """Run until a signal stops it; return the exit code."""
    text = sys.argv[1] if len(sys.argv) > 1 else "{}"
    try:
        settings = msgspec.json.decode(text, type=SandboxSettings, dec_hook=_decode_path)
        uvloop.run(_serve(settings))
    except (msgspec.DecodeError, TocsinError) as error:
        sys.stderr.write(f"tocsin.sandbox: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
