"""What others chose cannot control the terminal of whoever reads it."""

from datetime import UTC, datetime

import msgspec
import pytest
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from tocsin.cli import output
from tocsin.cli.inspect.top import Frame, render
from tocsin.engine.health.provider_health import Waiting
from tocsin.engine.inspect.queue import LaneQueue, Queue

NOW = datetime(2030, 1, 31, tzinfo=UTC)
HOSTILE = "a\x1b[31m\u009b2J\u202eb\u2066c\x07"


def test_lines_tables_trees_and_errors_control_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree(Text(HOSTILE))
    tree.add(HOSTILE).add(Text(HOSTILE))

    output.print_lines(HOSTILE)
    output.print_rows([HOSTILE], as_json=False, empty="", cells=lambda row: {"user": row})
    output.print_tree(tree)
    output.complain(HOSTILE)

    printed = "".join(capsys.readouterr())
    assert printed.count("a\ufffd[31m") == 6
    assert not set(printed) & set("\x1b\x07\u009b\u202e\u2066")


def test_what_a_lane_waits_for_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The reason of a circuit breaker has words of a provider."""
    none = Waiting(count=0, or_more=False)
    lane = LaneQueue(
        lane="webhook",
        due=none,
        oldest_due_at=None,
        oldest_age_seconds=None,
        scheduled=none,
        held=none,
        sent_per_second=0.0,
        attempts_per_second=0.0,
        blocked_by=HOSTILE,
    )

    output.console.print(render(Frame(Queue(NOW, [lane]), [])))

    printed = capsys.readouterr().out
    assert "a\ufffd[31m" in printed
    assert not set(printed) & set("\x1b\x07\u009b\u202e\u2066")


@pytest.mark.parametrize("width", [1, 3, 4, 7, 8, 12])
def test_an_entry_is_whole_in_a_terminal_of_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "console", console)

    output.print_entry("scheduled push:user:ada")

    assert "".join(capsys.readouterr().out.split()) == "scheduledpush:user:ada"


def test_json_controls_no_terminal_and_keeps_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"user": HOSTILE})
    output.print_json_line({"user": HOSTILE})

    printed = capsys.readouterr().out
    assert not set(printed) & set("\x1b\x07\u009b\u202e\u2066")
    *indented, line = printed.splitlines()
    assert [msgspec.json.decode("".join(indented)), msgspec.json.decode(line)] == [{"user": HOSTILE}] * 2


def test_texts_of_every_language_are_printed_as_they_are() -> None:
    for text in ("Ali Veli", "مشتری\u200cجدید", "👩\u200d💻", "a\tb\nc"):
        assert output.printable(text) == text
