"""`tocsin catalog preview`."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.panel import Panel
from rich.text import Text

from tocsin.cli.output import AsJson, console, fail, print_json, print_lines
from tocsin.cli.target import refuse_server
from tocsin.domain.errors import FaultsError

if TYPE_CHECKING:
    from tocsin.catalog.preview import Preview

LONGEST_SHOWN = 4_000


def preview(
    context: typer.Context,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="A type of the catalog.")],
    locale: Annotated[str | None, typer.Option(help="One language; all that have texts if left out.")] = None,
    channel: Annotated[str | None, typer.Option(help="One channel; all of the type if left out.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="A version; the newest if left out.")] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="A payload; an example of the type if left out.")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Attributes of the user; examples of the type if left out."),
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page for a browser instead.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="The catalog's folder; the one in use if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the messages of a type as people will read them; nothing is sent."""
    from tocsin.catalog.attributes import attribute_faults_of
    from tocsin.catalog.load import load_catalog
    from tocsin.catalog.preview import example_payload
    from tocsin.catalog.preview import preview as render_previews
    from tocsin.compose.catalog import catalog_folder
    from tocsin.settings.load import load_settings

    refuse_server(context, "tocsin catalog preview")
    settings = load_settings()
    catalog = load_catalog(folder or catalog_folder(settings), settings.delivery.policies)
    given = _object("--payload", payload) if payload is not None else None
    of_user = _object("--attributes", attributes) if attributes is not None else None
    declared = catalog.find(type_, version)
    faults = catalog.faults(type_, version, given or {}) if given is not None or declared is None else []
    if of_user and declared is not None:
        faults += attribute_faults_of(declared, of_user)
    if faults or declared is None:
        raise FaultsError("The preview cannot be made:", faults)
    if channel is not None and channel not in declared.channels:
        fail(f"{type_} has no channel {channel[:80]!r}; it has: {', '.join(declared.channels)}.", code=2)
    chosen = example_payload(catalog, declared) if given is None else given
    rendered = render_previews(catalog, declared, chosen, locale, of_user)
    shown = [each for each in rendered if channel in {None, each.channel}]
    if not shown:
        of_channel = f" for {channel}" if channel else ""
        fail(f"{type_} has no texts{of_channel}: there is nothing to preview.")
    if html_file is not None:
        _write_page(html_file, type_, shown)
        print_lines(f"Wrote {html_file}")
    elif as_json:
        print_json({"type": type_, "version": declared.version, "payload": chosen, "messages": shown})
    else:
        for each in shown:
            _print(each)


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        fail(f'{option} must be a JSON object, such as \'{{"name": "42"}}\'.', code=2)


def _print(each: "Preview") -> None:
    body = Text()
    for part, text in each.parts.items():
        body.append(f"{part}\n", style="dim")
        body.append(text.strip()[:LONGEST_SHOWN] + "\n\n")
    details = each.data | (msgspec.to_builtins(each.appearance) if each.appearance else {})
    for name, value in details.items():
        body.append(f"{name}: {value}\n", style="dim")
    body.rstrip()
    console.print(Panel(body, title=f"{each.channel} · {each.locale}", title_align="left", width=80))


def _write_page(path: Path, type_: str, shown: "Sequence[Preview]") -> None:
    from jinja2 import Environment

    template = resources.files(__package__).joinpath("preview.html.j2").read_text("utf-8")
    page = Environment(autoescape=True).from_string(template).render(type=type_, shown=shown)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        fail(f"The page cannot be written: {error}")
