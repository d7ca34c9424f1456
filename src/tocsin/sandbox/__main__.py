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
from tocsin.gc_tuning import tune_gc
from tocsin.sandbox.server import Sandbox
from tocsin.sandbox.settings import SandboxSettings

_ADDRESSES = ("http_url", "https_url", "smtp_port", "smtps_port", "ca_file")


def _decode_path(type_: type, value: Any) -> Any:
    if type_ is Path:
        return Path(value)
    raise NotImplementedError(type_)


async def _serve(settings: SandboxSettings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Sandbox(settings) as sandbox:
        addresses = {name: getattr(sandbox, name) for name in _ADDRESSES}
        sys.stdout.write(msgspec.json.encode(addresses, enc_hook=str).decode() + "\n")
        sys.stdout.flush()
        tune_gc()
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
