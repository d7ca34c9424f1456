"""The page with the table of imports between the parts."""

from tools.docs.markdown import NONE, code, codes, page, table
from tools.docs.pictures.architecture import DUTIES
from tools.docs.source import imports, layers


def imports_page() -> str:
    """Build the page."""
    edges = imports()
    order = [part for layer in layers() for part in layer]
    rows = [
        [
            code(part),
            " ".join(DUTIES[part]),
            codes(target for target in order if target in edges[part]) or NONE,
        ]
        for part in order
    ]
    return page(
        "Parts and imports",
        "The parts of `src/tocsin`, the topmost first. A part imports only parts below it; "
        "`make check` refuses anything else.",
        "![The parts of Tocsin and who imports whom](../pictures/architecture.svg)",
        table(["part", "duty", "imports"], rows),
    )
