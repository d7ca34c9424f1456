"""The process of `tocsin archive`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import structlog
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tocsin.aws.archive.settings import archive_start_faults
from tocsin.cli.output import errors, plural, print_result
from tocsin.cli.run.metrics import exported_metrics
from tocsin.cli.run.probes import probes_of
from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.compose.relays import aws_missing
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.gc_tuning import tune_gc
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings

if TYPE_CHECKING:
    from tocsin.aws.archive.archive import Archive, ArchiveTotals

_log = structlog.stdlib.get_logger(__name__)


def archive(*, once: bool, as_json: bool) -> None:
    """Write the messages of an SQS queue to files, on disk or S3."""
    settings = prepared_settings()
    if faults := list(archive_start_faults(settings.archive)):
        named = [
            Fault(field=setting_name(tuple(each.field.split("."))), code=each.code, message=each.message)
            for each in faults
        ]
        raise SettingsError("The archive cannot start:", named)
    finished: list[ArchiveTotals] = []
    run_until_stopped(lambda stop: _run_archive(settings, stop, finished, once=once))
    (totals,) = finished
    size = f"{totals.bytes:,} bytes in {plural(totals.files, 'file', 'files')}"
    print_result(totals, as_json, f"Archived {plural(totals.messages, 'message', 'messages')}: {size}.")


async def _run_archive(
    settings: Settings, stop: asyncio.Event, finished: "list[ArchiveTotals]", *, once: bool
) -> None:
    with _progress(shown=once) as wrote:
        async with (
            open_archive(settings, once=once, wrote=wrote) as opened,
            probes_of(settings.probes, opened.fault),
            exported_metrics(settings, None),
        ):
            tune_gc()
            _log.info("archive started", destination=settings.archive.destination)
            await opened.run(stop)
            finished.append(opened.totals)


@asynccontextmanager
async def open_archive(
    settings: Settings, *, once: bool, wrote: "Callable[[ArchiveTotals], None]"
) -> "AsyncIterator[Archive]":
    """Build the archive, which needs AWS, but no database."""
    try:
        from tocsin.aws.archive.archive import NAME, Archive
        from tocsin.aws.archive.destination import destination
        from tocsin.ingress.sqs.queue import SqsQueue
        from tocsin.providers.aws.clients import AwsClients
    except ModuleNotFoundError as error:
        raise aws_missing("archive") from error
    async with AwsClients(settings.aws) as clients:
        queue = SqsQueue(NAME, settings.archive.queue_url, settings.aws)
        try:
            to = destination(settings.archive, clients)
            yield Archive(settings.archive, queue, to, once=once, wrote=wrote)
        finally:
            await queue.aclose()


@contextmanager
def _progress(*, shown: bool) -> "Iterator[Callable[[ArchiveTotals], None]]":
    """Show how many messages were written, on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} messages archived"), TimeElapsedColumn())
    is_hidden = not shown or not errors.is_terminal
    with Progress(*columns, console=errors, disable=is_hidden, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda totals: bar.update(task, completed=totals.messages)
