"""The reference of the variables that the profile `galaxy` reads."""

from tocsin.profiles.galaxy_variables import DEPRECATED, FIXED, PREFIX, VARIABLES, Variable
from tools.docs.markdown import NONE, code, codes, page, table


def galaxy_page() -> str:
    """Build the page."""
    return page(
        "The variables of the galaxy profile",
        "With [`tocsin serve --profile galaxy`](../guides/galaxy.md) these variables are read as they stand. "
        "A variable that is empty counts as not set. One that is unknown, or whose value cannot be used, "
        "stops the start with a message that lists every fault. `tocsin.toml` overrides a default, not a "
        "variable that is set; a `TOCSIN_*` variable overrides all.",
        table(["variable", "default", "Tocsin's setting", "what it means"], map(_row, VARIABLES)),
        "## Refused",
        table(
            ["variable", "what to do"],
            [
                [code(PREFIX + name), f"{advice[0].upper()}{advice[1:]}."]
                for name, advice in DEPRECATED.items()
            ],
        ),
        "## Set by the profile itself",
        "These have no variable; a `TOCSIN_*` variable or `tocsin.toml` may change them.",
        table(["setting", "value"], [[code(name), code(_shown(value))] for name, value in FIXED.items()]),
        "The catalog, `catalog`, is `examples/galaxy/catalog` of the working folder, or else of the source "
        "tree; the tables, `gateway_stream.tables`, are in the folder `tables` beside it. Without either the "
        "start asks for `TOCSIN_CATALOG`.",
    )


def _row(variable: Variable) -> list[str]:
    default = "required" if variable.required else code(variable.default) if variable.default else NONE
    return [
        code(PREFIX + variable.name),
        default,
        codes(variable.settings) if variable.settings else NONE,
        variable.note,
    ]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
