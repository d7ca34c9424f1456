"""The documentation names only what exists, and its generated part is as new as the code."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tocsin.cli.commands import app
from tocsin.domain.errors import SettingsError
from tocsin.settings import NOT_SETTINGS, load_settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
PAGE_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
TYPED = re.compile(r"^\s*(?:\$ |ExecStart=)(?:\S*/)?tocsin +(.+)$", re.MULTILINE)
INLINE = re.compile(r"`(?:\S*/)?tocsin ([^`]+)`")
# What a shell line reads back ($NAME) is the reader's own variable.
VARIABLE = re.compile(r"(?<!\$)\bTOCSIN_[A-Z][A-Z_]*[A-Z]\b")


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.docs", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_generated_pages_are_as_new_as_the_code() -> None:
    checked = generate("--check")
    assert checked.returncode == 0, checked.stderr


def test_a_stale_page_is_named_and_mended(tmp_path: Path) -> None:
    folder = f"--folder={tmp_path}"
    assert generate(folder).returncode == 0
    (tmp_path / "reference" / "states.md").write_text("older")
    checked = generate("--check", folder)
    assert checked.returncode == 1
    assert [line for line in checked.stderr.splitlines() if line.startswith("  ")] == [
        "  reference/states.md"
    ]
    assert generate(folder).returncode == 0
    assert generate("--check", folder).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=PAGE_NAMES)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text("utf-8"))
    targets = [link for link in LINK.findall(prose) if not re.match(r"https?:|mailto:|#", link)]
    lost = [target for target in targets if not (page.parent / target.partition("#")[0]).exists()]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=PAGE_NAMES)
def test_every_command_named_exists(page: Path) -> None:
    wrong = [line for line in commands_in(page.read_text("utf-8")) if not is_command(line.split())]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=PAGE_NAMES)
def test_every_variable_named_is_a_setting(page: Path) -> None:
    named = set(VARIABLE.findall(page.read_text("utf-8"))) - NOT_SETTINGS
    assert [name for name in sorted(named) if not is_setting(name)] == []


@pytest.mark.parametrize("line", ["sevre", "keys make billing", "send new_customer --usr 1"])
def test_a_command_that_is_not_there_is_noticed(line: str) -> None:
    assert not is_command(line.split())


def test_a_variable_that_is_no_setting_is_noticed() -> None:
    assert not is_setting("TOCSIN_HTTP__PROT")


def commands_in(text: str) -> Iterator[str]:
    yield from TYPED.findall(text)
    yield from INLINE.findall(FENCE.sub("", text))


def is_command(words: list[str]) -> bool:
    """Tell whether these words, typed after `tocsin`, name a command and options that it has."""
    command: Any = typer.main.get_command(app)
    if words[0] in {"COMMAND", "…"}:
        return True
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command = command.commands.get(words.pop(0))
        if command is None:
            return False
    known = {"--help"} | {spelling for parameter in command.params for spelling in parameter.opts}
    return all(word in known for word in words if word.startswith("--"))


def is_setting(name: str) -> bool:
    """Tell whether the settings know a variable, whatever they think of its value."""
    try:
        load_settings({name: "1"}, file=Path("/dev/null"))
    except SettingsError as error:
        return all(fault.code != "unknown" for fault in error.faults)
    return True
