"""The little Markdown that generated pages are made of."""

from collections.abc import Iterable, Sequence

NONE = "\N{EN DASH}"
# Tables and pictures need the room that a table of contents would take.
WIDE = "---\nhide: [toc]\n---"
NOTICE = "<!-- Written by `python -m tools.docs`; change the code it is drawn from instead. -->"


def page(title: str, *blocks: str, contents: bool = False) -> str:
    """Put a page together from its blocks, with a table of contents beside it or more room."""
    head = [] if contents else [WIDE]
    return "\n\n".join([*head, f"# {title}", NOTICE, *blocks]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def code(text: object) -> str:
    """Write a piece of code."""
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Write several pieces of code as a list within a line."""
    return ", ".join(map(code, texts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
