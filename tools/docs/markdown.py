"""The Markdown elements of generated pages."""

from collections.abc import Iterable, Sequence

NONE = "\N{EN DASH}"
# Wide tables and pictures need the space of the table of contents.
WIDE = "---\nhide: [toc]\n---"
NOTICE = "<!-- Written by `python -m tools.docs`; change the code it is drawn from instead. -->"


def page(title: str, *blocks: str, contents: bool = False) -> str:
    """Build a page from its blocks, with a table of contents or with wide tables."""
    head = [] if contents else [WIDE]
    return "\n\n".join([*head, f"# {title}", NOTICE, *blocks]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Build a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def code(text: object) -> str:
    """Format a text as code."""
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Format several texts as code, separated by commas."""
    return ", ".join(map(code, texts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
