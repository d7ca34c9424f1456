"""`tocsin prune`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tocsin.cli.access import with_pool
from tocsin.cli.output import AsJson, errors, fail, print_result

if TYPE_CHECKING:
    from tocsin.engine.retention.passes import Report
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool


class PruneResult(msgspec.Struct, frozen=True):
    """The rows of each table that were pruned, or would be."""

    dry_run: bool
    rows: Mapping[str, int]


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the rows, delete none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete what is past its retention now, at any hour; workers do it every hour by themselves."""
    with errors.status("Counting …" if dry_run else "Pruning …") as status:
        result = with_pool(_work(dry_run, lambda rows: status.update(_summary(rows, dry_run))))
    print_result(result, as_json, _summary(result.rows, dry_run) + ".")


def _work(dry_run: bool, report: "Report") -> Callable[["Settings", "Pool"], Awaitable[PruneResult]]:
    from tocsin.compose.database import database_clock
    from tocsin.engine.retention.passes import count_prunable
    from tocsin.engine.retention.prune import PassRunsError, Pruner

    async def work(settings: "Settings", pool: "Pool") -> PruneResult:
        clock = await database_clock(pool)
        if dry_run:
            rows: Mapping[str, int] = await count_prunable(pool, settings.retention, clock(), report)
        else:
            try:
                rows = await Pruner(pool, clock, settings.retention, settings.devices).prune_now(report)
            except PassRunsError:
                fail("Another process prunes at the moment: `tocsin progress` shows when it has ended.")
        return PruneResult(dry_run, rows)

    return work


def _summary(rows: Mapping[str, int], dry_run: bool) -> str:
    counts = [f"{count:,} {table.replace('_', ' ')}" for table, count in rows.items()]
    return f"{'Would prune' if dry_run else 'Pruned'} {', '.join(counts) or 'nothing'}"
