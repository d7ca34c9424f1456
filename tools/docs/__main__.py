"""`python -m tools.docs` writes the generated pages; with `--check` it only lists stale ones."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs.asyncapi.streams import client_events_document, intents_document, mail_commands_document
from tools.docs.envelope_schema import envelope_schema
from tools.docs.pages.cli import cli_page
from tools.docs.pages.code import code_page
from tools.docs.pages.errors import errors_page
from tools.docs.pages.fcm import fcm_page
from tools.docs.pages.galaxy import galaxy_page
from tools.docs.pages.glossary import glossary_page
from tools.docs.pages.imports import imports_page
from tools.docs.pages.logs import logs_page
from tools.docs.pages.metrics import metrics_page
from tools.docs.pages.providers import providers_page
from tools.docs.pages.settings import settings_page
from tools.docs.pages.sns import sns_page
from tools.docs.pages.states import states_page
from tools.docs.pictures.architecture import architecture_picture
from tools.docs.pictures.states import states_picture
from tools.docs.pictures.way import way_picture
from tools.docs.probes_document import probes_document
from tools.docs.source import ROOT

FILES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": settings_page,
    "reference/cli.md": cli_page,
    "reference/states.md": states_page,
    "reference/providers.md": providers_page,
    "reference/fcm.md": fcm_page,
    "reference/sns.md": sns_page,
    "reference/errors.md": errors_page,
    "reference/logs.md": logs_page,
    "reference/metrics.md": metrics_page,
    "reference/imports.md": imports_page,
    "reference/glossary.md": glossary_page,
    "reference/asyncapi/intents.yaml": intents_document,
    "reference/asyncapi/client-events.yaml": client_events_document,
    "reference/asyncapi/mail-commands.yaml": mail_commands_document,
    "reference/fisa-envelope.schema.json": envelope_schema,
    "reference/probes.openapi.json": probes_document,
    "reference/galaxy-variables.md": galaxy_page,
    "explanation/code.md": code_page,
    "pictures/states.svg": states_picture,
    "pictures/architecture.svg": architecture_picture,
    "pictures/way.svg": way_picture,
}


def main() -> int:
    """Write or check every generated file."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs", help="where the pages are")
    given = parser.parse_args()
    stale = []
    for name, write in FILES.items():
        path, text = given.folder / name, write()
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if given.check and stale:
        names = "\n".join(f"  {name}" for name in stale)
        sys.stderr.write(f"In {given.folder}, these are out of date with the code:\n{names}\n")
        sys.stderr.write("Regenerate them: python -m tools.docs\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
