"""`tocsin segments`."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.access import at_database_time, checked, over_http, with_connection, with_pool
from tocsin.cli.output import AsJson, errors, fail, plural, print_result, print_rows
from tocsin.domain.errors import FaultsError
from tocsin.domain.intent import SegmentName
from tocsin.wire.segments import NDJSON, DeletedSegment, Segment, Segments

if TYPE_CHECKING:
    from tocsin.store.broadcasts.segments import SegmentRow
    from tocsin.store.pool import Pool

PART = 1 << 16

app = typer.Typer(
    name="segments", help="Named lists of people, for `tocsin send --segment`.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the segment.")]
Org = Annotated[
    str | None,
    typer.Option("--org", metavar="ORG", help="That of this organisation; over HTTP, of the API key's."),
]


@app.command("list")
def list_segments(org_id: Org = None, as_json: AsJson = False) -> None:
    """List the segments with how many people they have."""
    _check_org(org_id)
    if remote := over_http():
        rows = remote.call(Segments, "GET", "segments").items
    else:
        from tocsin.store.broadcasts import segments

        rows = list(map(_shown, with_connection(segments.list_all, org_id)))
    print_rows(
        rows,
        as_json,
        empty="There is no segment.",
        cells=lambda row: {
            "name": row.name, "people": row.members, "updated": row.updated_at, "organisation": row.org_id,
        },
    )  # fmt: skip


@app.command()
def upload(
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, readable=True, help='Lines such as {"user_id": "42"}.'),
    ],
    org_id: Org = None,
    as_json: AsJson = False,
) -> None:
    """Upload a segment, in place of the one before."""
    wanted = _checked(name)
    _check_org(org_id)
    remote = over_http()
    with file.open("rb") as lines, _progress(file) as read:
        if remote:
            row = remote.upload(Segment, NDJSON, _parts(lines, read), "segments", wanted)
        else:
            row = _shown(with_pool(lambda _, pool: _store(pool, wanted, org_id, _parts(lines, read))))
    print_result(row, as_json, f"Segment {row.name} has {plural(row.members, 'person', 'people')}.")


@app.command()
def delete(name: Name, org_id: Org = None, as_json: AsJson = False) -> None:
    """Delete a segment; a broadcast that was accepted before goes on with its people."""
    wanted = _checked(name)
    _check_org(org_id)
    if remote := over_http():
        is_deleted = bool(remote.find(DeletedSegment, "DELETE", "segments", wanted))
    else:
        from tocsin.store.broadcasts import segments

        is_deleted = at_database_time(
            lambda connection, now: segments.delete(connection, wanted, org_id, now)
        )
    if not is_deleted:
        fail(f"There is no segment {wanted}.")
    print_result(DeletedSegment(wanted), as_json, f"Segment {wanted} is deleted.")


async def _store(pool: "Pool", name: str, org_id: str | None, parts: Iterator[bytes]) -> "SegmentRow":
    from tocsin.compose.database import database_clock
    from tocsin.engine.broadcast.segments import SegmentFaultsError, Uploader

    async def stream() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    try:
        return await Uploader(pool, await database_clock(pool), org_id).upload(name, stream())
    except SegmentFaultsError as error:
        raise FaultsError("The segment was refused and is as it was before:", error.faults) from error


def _parts(lines: BinaryIO, read: Callable[[int], None]) -> Iterator[bytes]:
    while part := lines.read(PART):
        yield part
        read(len(part))


@contextmanager
def _progress(file: Path) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error, if that is a terminal; yield what advances it by bytes."""
    columns = TextColumn("uploading"), BarColumn(), DownloadColumn(), TimeElapsedColumn()
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("uploading", total=file.stat().st_size)
        yield lambda size: bar.advance(task, size)


def _shown(row: "SegmentRow") -> Segment:
    return Segment(name=row.name, members=row.members, updated_at=row.updated_at, org_id=row.org_id)


def _check_org(org_id: str | None) -> None:
    if org_id is not None and over_http():
        fail("--org cannot be given over HTTP: the API key says which organisation it is.", code=2)


def _checked(name: str) -> str:
    return checked(
        name,
        SegmentName,
        f"{name[:80]!r} is no name of a segment: 1 to 64 letters, digits, dots, dashes or underscores.",
    )
