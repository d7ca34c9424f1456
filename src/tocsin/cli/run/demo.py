"""`tocsin demo`: everything at once, and a first notification from end to end."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.run.process import run_until_stopped
from tocsin.logs import LogSettings, configure_logs
from tocsin.settings import load_settings


def demo(
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the data here; a temporary folder if left out.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the first notification.")] = False,
) -> None:
    """Start a database, a sandbox, the API and a worker, and send a first notification."""
    from tocsin.cli.run.first_notification import run_demo  # noqa: PLC0415 - a production install has no sandbox

    settings = load_settings()
    configure_logs(LogSettings(level="warning", format="console"))

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as exits:
            folder = data_dir or Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-demo-")))
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
            await run_demo(settings, folder, exits, stop, once=once)

    run_until_stopped(main)
