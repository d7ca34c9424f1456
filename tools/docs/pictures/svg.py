"""Boxes and arrows as SVG, for light and dark themes."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

STYLE = """
text { font: 14px -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2328; }
.paper { fill: #ffffff; }
.title { font-weight: 600; }
.small { font-size: 12.5px; fill: #57606a; }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.box { stroke-width: 1.3; }
.plain { fill: #f3f5f7; stroke: #8c959f; }
.waits { fill: #e3efff; stroke: #3f7fcf; }
.good { fill: #e2f5e6; stroke: #3a9a55; }
.bad { fill: #fdeaea; stroke: #c9504f; }
.quiet { fill: #fdf4dc; stroke: #b98a1c; }
.band { fill: none; stroke: #c4cbd2; stroke-dasharray: 4 4; }
.line { fill: none; stroke: #6b7682; stroke-width: 1.4; }
.later { stroke-dasharray: 5 4; }
.head { fill: #6b7682; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ed; }
.paper { fill: #1c1f26; }
.small { fill: #a9b2bd; }
.plain { fill: #2a2f38; stroke: #7d8792; }
.waits { fill: #1d3350; stroke: #6ea8f0; }
.good { fill: #1c3a26; stroke: #5fbf7c; }
.bad { fill: #43211f; stroke: #e58683; }
.quiet { fill: #3d3316; stroke: #d9b04c; }
.band { stroke: #4b545f; }
.line { stroke: #9aa5b1; }
.head { fill: #9aa5b1; }
}
""".strip()


class Box(NamedTuple):
    """A rectangle with a title and lines below it."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


class Drawing:
    """Collects shapes and writes them as SVG."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self._size = width, height
        self._title = title
        self._description = description
        self._shapes: list[str] = []

    def box(self, box: Box, kind: str, title: str, lines: Sequence[str] = (), *, mono: bool = False) -> None:
        """Draw a box with its text in the middle."""
        self._shapes.append(
            f'<rect class="box {kind}" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
            f'height="{box.height:g}" rx="7"/>'
        )
        x, middle = box.middle
        top = middle + 4.5 - 8 * len(lines)
        self.text(x, top, title, "title mono" if mono else "title")
        for number, line in enumerate(lines, start=1):
            self.text(x, top + 16 * number, line, "small")

    def band(self, box: Box, label: str) -> None:
        """Draw a dashed frame with a caption."""
        self._shapes.append(
            f'<rect class="band" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
            f'height="{box.height:g}" rx="10"/>'
        )
        self.text(box.middle[0], box.y + 19, label)

    def dot(self, x: float, y: float) -> None:
        """Draw a point where lines meet."""
        self._shapes.append(f'<circle class="head" cx="{x:g}" cy="{y:g}" r="5"/>')

    def text(self, x: float, y: float, words: str, kind: str = "small", *, anchor: str = "middle") -> None:
        """Draw a text."""
        self._shapes.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def arrow(self, path: str, *, later: bool = False, head: bool = True) -> None:
        """Draw a line along a path, with a head at its end."""
        kind = "line later" if later else "line"
        marker = ' marker-end="url(#head)"' if head else ""
        self._shapes.append(f'<path class="{kind}" d="{path}"{marker}/>')

    def written(self) -> str:
        """Return the picture as SVG text."""
        width, height = self._size
        shapes = "\n".join(self._shapes)
        return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 width="{width}" height="{height}" role="img" aria-labelledby="title description">
<title id="title">{escape(self._title)}</title>
<desc id="description">{escape(self._description)}</desc>
<style>
{STYLE}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
 orient="auto-start-reverse"><path class="head" d="M0 1 9 5 0 9z"/></marker></defs>
<rect class="paper" width="{width}" height="{height}" rx="12"/>
{shapes}
</svg>
"""


def across(start: Box, end: Box) -> str:
    """Return a curve from the right edge of one box to the left edge of another."""
    (_, y), (_, end_y) = start.middle, end.middle
    return bend(start.right, y, end.x, end_y)


def bend(x: float, y: float, end_x: float, end_y: float) -> str:
    """Return a curve that is horizontal at both ends."""
    half = (x + end_x) / 2
    return f"M{x:g} {y:g}C{half:g} {y:g} {half:g} {end_y:g} {end_x:g} {end_y:g}"


def down(start: Box, end: Box, *, leave: float | None = None, arrive: float | None = None) -> str:
    """Return a curve from the lower edge of one box to the upper edge of another."""
    x = start.middle[0] if leave is None else leave
    end_x = end.middle[0] if arrive is None else arrive
    half = (start.bottom + end.y) / 2
    return f"M{x:g} {start.bottom:g}C{x:g} {half:g} {end_x:g} {half:g} {end_x:g} {end.y:g}"
