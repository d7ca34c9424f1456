"""The picture of the layers, drawn from the import rules and the imports."""

from collections.abc import Mapping

from tools.docs.pictures.svg import Box, Drawing, down
from tools.docs.source import direct, imports, layers

DUTIES: Mapping[str, tuple[str, str]] = {
    "cli": ("the commands: tocsin …", "process tree, demo"),
    "compose": ("builds processes from settings;", "the only part that imports all"),
    "settings": ("the settings from", "tocsin.toml and TOCSIN_*"),
    "aws": ("topics, archive and functions:", "fan-out beyond one machine"),
    "gateway": ("live events to apps", "and browsers: SSE, WebSocket"),
    "profiles": ("Tocsin as another service,", "by that service's variables"),
    "api": ("HTTP: authentication,", "requests and responses"),
    "sandbox": ("emulates every provider:", "virtual devices, scripted faults"),
    "ingress": ("intents from other sources:", "the outbox"),
    "engine": ("accept, dispatch, settle:", "the path of a notification"),
    "store": ("Postgres: migrations, and the", "SQL next to its function"),
    "catalog": ("types and texts from a folder,", "checked before they are used"),
    "providers": ("a folder each: render, send,", "classify the answer"),
    "wire": ("request and response types,", "shared with the client"),
    "http2": ("frames, header blocks, windows:", "what both ends of HTTP/2 share"),
    "domain": ("pure rules: states, plan, backoff,", "outcomes, fingerprint"),
}
BOX_WIDTH, BOX_HEIGHT, ROW = 232, 66, 108
WIDTH = 940


def architecture_picture() -> str:
    """Draw the parts in their layers, with the imports that are not already implied by others."""
    rows = layers()
    drawing = Drawing(
        WIDTH,
        6 + ROW * len(rows),
        "The parts of Tocsin",
        "Each part imports only parts below it; an import that another path implies is left out.",
    )
    boxes = {
        part: Box(_column(number, len(row)), 24 + ROW * level, BOX_WIDTH, BOX_HEIGHT)
        for level, row in enumerate(rows)
        for number, part in enumerate(row)
    }
    levels = {part: level for level, row in enumerate(rows) for part in row}
    edges = direct(imports())
    pairs = [(part, target) for part, targets in edges.items() for target in sorted(targets)]
    far = [(part, target) for part, target in pairs if levels[target] - levels[part] > 1]
    for part, target in pairs:
        start, end = boxes[part], boxes[target]
        if (part, target) in far:
            drawing.arrow(_around_the_side(start, end, far.index((part, target))))
        else:
            drawing.arrow(down(start, end))
    for part, box in boxes.items():
        drawing.box(box, "waits" if part == "domain" else "plain", part, DUTIES[part], mono=True)
    return drawing.written()


def _column(number: int, count: int) -> float:
    gap = 56
    total = count * BOX_WIDTH + (count - 1) * gap
    return (WIDTH - 40 - total) / 2 + number * (BOX_WIDTH + gap)


def _around_the_side(start: Box, end: Box, lane: int) -> str:
    """Draw an arrow around the layers in between on the right, each at its own distance."""
    side, apart = WIDTH - 16 - 14 * lane, 8 + 7 * lane
    x, end_x = start.right - 10 - apart, end.right - 10 - apart
    y, end_y = start.bottom + apart, end.y - apart
    return (
        f"M{x:g} {start.bottom:g}L{x:g} {y - 6:g}Q{x:g} {y:g} {x + 6:g} {y:g}"
        f"L{side - 10:g} {y:g}Q{side:g} {y:g} {side:g} {y + 10:g}"
        f"L{side:g} {end_y - 10:g}Q{side:g} {end_y:g} {side - 10:g} {end_y:g}"
        f"L{end_x + 6:g} {end_y:g}Q{end_x:g} {end_y:g} {end_x:g} {end_y + 6:g}L{end_x:g} {end.y:g}"
    )
