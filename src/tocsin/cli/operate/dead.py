"""`tocsin dead`."""

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from uuid import UUID

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tocsin.cli.access import By, operator, over_http, with_connection, with_pool
from tocsin.cli.filters import read_filter
from tocsin.cli.options import with_options_of
from tocsin.cli.output import AsJson, errors, escape_json, fail, moment, plural, print_result, print_rows
from tocsin.domain.errors import FaultsError
from tocsin.wire.dead_letters import (
    DEFAULT_RATE,
    LARGEST_RATE,
    MOST_CHOSEN,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterGroups,
    DeadLetterPage,
    Replay,
    ReplayPage,
    ReplayRequest,
    StartedReplay,
    dead_letter_faults,
)
from tocsin.wire.filters import DeliveryFilter

if TYPE_CHECKING:
    from tocsin.cli.remote import Remote
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

LOOK_SECONDS = 0.5
EXPORTED_AT_ONCE = 500

app = typer.Typer(name="dead", help="Dead letters: what failed for good, and why.", no_args_is_help=True)

ReplayId = Annotated[UUID, typer.Argument(metavar="REPLAY", help="The id that `tocsin dead replays` shows.")]


@app.command("list")
@with_options_of(read_filter)
def list_groups(wanted: DeliveryFilter, as_json: AsJson = False) -> None:
    """List dead letters by cause, the largest groups first."""
    given = _checked(wanted)
    if remote := over_http():
        found = remote.call(DeadLetterGroups, "GET", "admin", "dead-letters", **_query(given))
    else:
        from tocsin.engine.inspect import dead_letters

        found = with_connection(dead_letters.list_groups, given)
    lines = [line for group in found.groups for line in _group_lines(group)]
    print_result(found, as_json, *lines or ["There are no such dead letters."])
    if found.truncated and not as_json:
        errors.print("Only the newest dead letters were counted; there are older ones.", style="dim")


@app.command()
@with_options_of(read_filter)
def replay(
    wanted: DeliveryFilter,
    delivery_ids: Annotated[
        list[UUID] | None, typer.Argument(metavar="[DELIVERY]...", help="Replay these deliveries alone.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay every dead letter.")] = False,
    rate: Annotated[
        int, typer.Option(min=1, max=LARGEST_RATE, help="Deliveries a second, at most.")
    ] = DEFAULT_RATE,
    force: Annotated[bool, typer.Option("--force", help="Also what is past its time to live.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be replayed.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for its end.")] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeating the command with the same key starts nothing new.")
    ] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Replay dead letters; the workers do it. Interrupting the command does not stop the replay."""
    given = _checked(wanted, delivery_ids)
    if every == bool(msgspec.to_builtins(given)):
        fail("Give a delivery or a filter such as --code, or --all to replay every dead letter.", code=2)
    who = operator(by)
    request = ReplayRequest(
        filter=given,
        rate=rate,
        force=force,
        dry_run=dry_run,
        # A request that is sent again after a lost answer is the same replay.
        idempotency_key=idempotency_key or uuid.uuid4().hex,
    )
    if dry_run:
        _print_dry_run(request, as_json)
        return
    found = (
        _replay_remotely(remote, request, detach=detach)
        if (remote := over_http())
        else _replay_stored(request, who, detach=detach)
    )
    print_result(found, as_json, *_replay_lines(found))


@app.command("replays")
def list_replays(
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many, at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List replays, newest first."""
    if remote := over_http():
        rows = remote.call(ReplayPage, "GET", "admin", "replays", limit=limit).replays
    else:
        from tocsin.engine.inspect.dead_letters import replay_of
        from tocsin.store.dead_letters import replays

        rows = list(map(replay_of, with_connection(replays.page, UUID(int=(1 << 128) - 1), limit)))
    print_rows(rows, as_json, empty="Nothing was ever replayed.", cells=_replay_cells)


@app.command()
def stop(replay_id: ReplayId, by: By = None, as_json: AsJson = False) -> None:
    """Stop a replay; what it has replayed stays replayed."""
    who = operator(by)
    if remote := over_http():
        found = remote.find(Replay, "POST", "admin", "replays", replay_id, "stop")
    else:
        from tocsin.engine.inspect import dead_letters

        row = with_connection(dead_letters.stop_replay, replay_id, who)
        found = dead_letters.replay_of(row) if row else None
    if found is None:
        fail(f"No replay {replay_id} is running; `tocsin dead replays` lists them.")
    print_result(found, as_json, *_replay_lines(found))


@app.command()
@with_options_of(read_filter)
def export(
    wanted: DeliveryFilter,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Export dead letters with their payloads as NDJSON, oldest first; e-mail addresses are masked."""
    given = _checked(wanted)
    with _opened(output) as file:
        count = (
            _export_remotely(remote, given, file) if (remote := over_http()) else _export_stored(given, file)
        )
    errors.print(f"Exported {plural(count, 'dead letter', 'dead letters')}.", style="dim")


def _checked(wanted: DeliveryFilter, delivery_ids: list[UUID] | None = None) -> DeadLetterFilter:
    if delivery_ids and len(delivery_ids) > MOST_CHOSEN:
        fail(f"Give at most {MOST_CHOSEN} deliveries, or a filter such as --code.", code=2)
    chosen: dict[str, Any] = {"delivery_ids": delivery_ids or None}
    if delivery_ids is not None and len(delivery_ids) == 1:
        chosen = {"delivery_id": delivery_ids[0]}
    given = DeadLetterFilter(**msgspec.structs.asdict(wanted), **chosen)
    if faults := dead_letter_faults(given):
        raise FaultsError("The filter is invalid:", faults)
    return given


def _query(given: DeadLetterFilter) -> dict[str, str]:
    return {name: str(value) for name, value in msgspec.to_builtins(given).items()}


def _print_dry_run(request: ReplayRequest, as_json: bool) -> None:
    if remote := over_http():
        matched = remote.call(StartedReplay, "POST", "admin", "dead-letters", "replay", body=request).matched
    else:
        from tocsin.engine.inspect import dead_letters

        matched = with_connection(dead_letters.count, request.filter)
    counted = plural(matched.count, "dead letter", "dead letters")
    least = "At least " if matched.or_more else ""
    print_result({"matched": matched}, as_json, f"{least}{counted} would be replayed.")


def _replay_stored(request: ReplayRequest, who: str, *, detach: bool) -> Replay:
    import asyncio

    from tocsin.engine.inspect.dead_letters import ReplayConflictError, replay_of, start_replay
    from tocsin.store.dead_letters import replays

    async def work(_: "Settings", pool: "Pool") -> Replay:
        async with pool.acquire() as connection:
            try:
                shown = replay_of(await start_replay(connection, request, who))
            except ReplayConflictError as error:
                fail(f"This idempotency key was used before, for the other replay {error.replay_id}.")
            with _progress(shown) as update:
                while shown.state == "running" and not detach:
                    await asyncio.sleep(LOOK_SECONDS)
                    row = await replays.get(connection, shown.replay_id)
                    if row is None:
                        fail(f"The replay {shown.replay_id} is not there any more.")
                    shown = replay_of(row)
                    update(shown)
        return shown

    return with_pool(work)


def _replay_remotely(remote: "Remote", request: ReplayRequest, *, detach: bool) -> Replay:
    started = remote.call(StartedReplay, "POST", "admin", "dead-letters", "replay", body=request)
    path = "admin", "replays", started.replay_id
    shown = remote.call(Replay, "GET", *path)
    with _progress(shown) as update:
        while shown.state == "running" and not detach:
            time.sleep(LOOK_SECONDS)
            shown = remote.call(Replay, "GET", *path)
            update(shown)
    return shown


@contextmanager
def _progress(shown: Replay) -> Iterator[Callable[[Replay], None]]:
    """Show a progress bar on standard error, if that is a terminal; yield what updates it."""
    columns = TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        total = None if shown.matched.or_more else shown.matched.count
        task = bar.add_task("replaying", total=total, completed=_done(shown))
        yield lambda now: bar.update(task, completed=_done(now))


def _done(shown: Replay) -> int:
    return shown.replayed + sum(shown.left_out.values())


def _export_remotely(remote: "Remote", given: DeadLetterFilter, file: TextIO) -> int:
    from tocsin.store.dead_letters.reading import FIRST

    count, after, more = 0, FIRST, True
    while more:
        query = _query(given) | {"after": str(after), "limit": str(EXPORTED_AT_ONCE)}
        found = remote.call(DeadLetterPage, "GET", "admin", "dead-letters", "export", **query)
        count += _write(found, file)
        after, more = found.next or after, found.next is not None
    return count


def _export_stored(given: DeadLetterFilter, file: TextIO) -> int:
    from tocsin.engine.inspect.dead_letters import page
    from tocsin.store.dead_letters.reading import FIRST

    async def work(_: "Settings", pool: "Pool") -> int:
        count, after, more = 0, FIRST, True
        async with pool.acquire() as connection:
            while more:
                found = await page(connection, given, after, EXPORTED_AT_ONCE)
                count += _write(found, file)
                after, more = found.next or after, found.next is not None
        return count

    return with_pool(work)


def _write(found: DeadLetterPage, file: TextIO) -> int:
    file.writelines(escape_json(msgspec.json.encode(row)) + "\n" for row in found.dead_letters)
    return len(found.dead_letters)


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        file = output.open("w", encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.", code=2)
    with file:
        yield file


def _group_lines(group: DeadLetterGroup) -> Iterator[str]:
    example = group.example
    by = f" by {group.provider}" if group.provider else ""
    yield f"{group.count} {group.state} {group.code or 'without a code'}"
    yield f"  {group.type}{by}, since {moment(group.oldest)}"
    yield from (f"  {text}" for text in (example.error, group.recovery_hint) if text)
    yield f"  look at one:  tocsin show {example.notification_id}"
    yield f"  replay one:   tocsin dead replay {example.delivery_id}"


def _replay_cells(shown: Replay) -> dict[str, object]:
    return {
        "replay": f"{shown.replay_id}\n  {shown.state}, at most {shown.rate}/s",
        "replayed": f"{shown.replayed}/{shown.matched.count}{'+' * shown.matched.or_more}",
        "left out": sum(shown.left_out.values()),
        "by": shown.created_by,
    }


def _replay_lines(shown: Replay) -> Iterator[str]:
    counted = plural(shown.replayed, "delivery", "deliveries")
    if shown.state == "running":
        yield f"Replay {shown.replay_id} is running: {counted} so far."
        yield f"Look by `tocsin dead replays`, stop it by `tocsin dead stop {shown.replay_id}`."
    else:
        yield f"Replayed {counted} ({shown.state})."
    for reason, count in sorted(shown.left_out.items()):
        hint = "; --force replays them" if reason == "expired" else ""
        yield f"Left out: {count} {reason}{hint}."
