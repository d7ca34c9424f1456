"""`tocsin demo`: everything at once, and a first notification from end to end."""

import os
import shutil
import tempfile
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.output import fail
from tocsin.domain.errors import DatabaseError

PREFIX = "tocsin-demo-"
_MARK = "temporary"
"""A file in each temporary folder: one that `--data-dir` names may have such a name, and is kept."""


def demo(
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the data here; a temporary folder if left out.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the first notification.")] = False,
) -> None:
    """Start a database, a sandbox, the API and a worker, and send a first notification."""
    import asyncio

    # A production install has no sandbox.
    from tocsin.cli.demo.first_notification import run_demo
    from tocsin.cli.run.process import run_until_stopped
    from tocsin.logs import LogSettings, configure_logs
    from tocsin.settings.load import load_settings

    settings = load_settings()
    configure_logs(LogSettings(level="warning", format="console"))

    async def main(stop: asyncio.Event) -> None:
        await asyncio.to_thread(_clear_abandoned)
        async with AsyncExitStack() as exits:
            folder = data_dir or Path(exits.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))
            try:
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o755)
            except OSError as error:
                fail(f"The folder {folder} cannot be used: {error.strerror}. Give another one by --data-dir.")
            if data_dir is None:
                (folder / _MARK).touch()
            await run_demo(settings, folder, exits, stop, once=once)

    run_until_stopped(main, owner=True)


def _clear_abandoned() -> None:
    """Stop the databases of demos that were killed, and remove their folders."""
    from tocsin.store.embedded import EmbeddedPostgres

    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # It may be of another user, or another demo may remove it at the same time.
        with suppress(OSError, DatabaseError):
            if folder.stat().st_uid != os.geteuid() or not (folder / _MARK).exists():
                continue
            postgres = EmbeddedPostgres(folder)
            if postgres.stop_abandoned() or postgres.is_left_behind():
                shutil.rmtree(folder, ignore_errors=True)
