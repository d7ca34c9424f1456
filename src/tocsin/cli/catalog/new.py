"""`tocsin catalog new`."""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from tocsin.catalog.scaffold import KINDS, Field, NewType, files_of, name_faults, parse_field, write_files
from tocsin.cli.output import AsJson, fail, print_result
from tocsin.cli.target import refuse_server
from tocsin.domain.catalog import DEFAULT_LOCALE, Channel
from tocsin.domain.errors import FaultsError
from tocsin.domain.faults import Fault


def new(
    context: typer.Context,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Its name, such as order_paid.")],
    category: Annotated[
        str | None, typer.Option(help="What people switch on and off; asked for, or `general`.")
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(help="push, email, webhook or inbox, may be repeated; asked for, or push."),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:TYPE][?]",
            help=f"A field of the payload, may be repeated; ? means optional. Types: {', '.join(KINDS)}.",
        ),
    ] = None,
    locale: Annotated[str, typer.Option(help="The language of the first texts.")] = DEFAULT_LOCALE,
    folder: Annotated[
        Path | None, typer.Option(help="The catalog's folder; the one in use if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the declaration of a new type and its first templates, ready to be edited."""
    from tocsin.catalog.load import shipped_catalog
    from tocsin.compose.catalog import catalog_folder
    from tocsin.settings.load import load_settings

    refuse_server(context, "tocsin catalog new")
    chosen = folder or catalog_folder(load_settings())
    if chosen.resolve() == shipped_catalog().resolve():
        fail(
            "The catalog in use is the one shipped with Tocsin: name a folder of your own by --folder.",
            code=2,
        )
    asks = sys.stdin.isatty()
    category = category or _ask("Category", "general", asks=asks)
    channels = channel or _ask("Channels, separated by commas", "push", asks=asks).split(",")
    fields = field or (_ask_fields() if asks else [])
    made = _checked(type_, category, [each.strip() for each in channels], fields, locale)
    files = files_of(made)
    _check(files)
    try:
        write_files(chosen, files)
    except FileExistsError as error:
        fail(f"{error} exists already; nothing was written.")
    except OSError as error:
        fail(f"The catalog cannot be written: {error}")
    paths = [str(chosen / path) for path in files]
    where = f" --folder {shlex.quote(str(folder))}" if folder else ""
    advice = f"Edit the texts, then run: tocsin catalog preview {type_}{where}"
    print_result({"type": type_, "files": paths}, as_json, *(f"Wrote {path}" for path in paths), advice)


def _ask(question: str, default: str, *, asks: bool) -> str:
    return str(typer.prompt(question, default=default, err=True)) if asks else default


def _ask_fields() -> list[str]:
    fields: list[str] = []
    while answer := typer.prompt(
        "A field of the payload (empty to end)", default="", err=True, show_default=False
    ):
        fields.append(answer)
    return fields


def _checked(type_: str, category: str, channels: list[str], fields: list[str], locale: str) -> NewType:
    from tocsin.catalog.declaration import locale_problem

    faults = list(name_faults(type_, category))
    known = get_args(Channel)
    faults += [
        Fault(field="--channel", code="invalid", message=f"{each[:80]!r} is none of {', '.join(known)}")
        for each in channels
        if each not in known
    ]
    # It becomes the name of a folder.
    if problem := locale_problem(locale):
        faults.append(Fault(field="--locale", code="invalid", message=problem))
    parsed = [parse_field(each) for each in fields]
    faults += [each for each in parsed if isinstance(each, Fault)]
    if faults:
        raise FaultsError("The type cannot be made:", faults)
    return NewType(
        name=type_,
        category=category,
        channels=cast("list[Channel]", list(dict.fromkeys(channels))),
        locale=locale,
        fields=list({each.name: each for each in parsed if isinstance(each, Field)}.values()),
    )


def _check(files: dict[str, str]) -> None:
    """Check the files by themselves before anything is written where a running Tocsin would read it."""
    from tocsin.catalog.check import check

    with tempfile.TemporaryDirectory() as temporary:
        write_files(Path(temporary), files)
        if faults := check(Path(temporary)).faults:
            raise FaultsError("The type cannot be made:", faults)
