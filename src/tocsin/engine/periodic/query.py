"""The query of a scan: `:last` becomes a bind parameter."""

import re

from tocsin.domain.timing.schedule import ValueType

# Whatever may hold a colon without meaning a placeholder is matched first and left as it is.
_TOKENS = re.compile(
    r"""
      (?P<skipped>
          \b[eE]'(?:\\.|''|[^'\\])*'
        | '(?:''|[^'])*'
        | "(?:""|[^"])*"
        | --[^\n]*
        | /\*.*?\*/
        | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
        | ::
        | :=
      )
    | (?P<number>\$\d+)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def bind_last(query: str, kind: ValueType) -> str:
    """Write `$1` where the query says `:last`, or raise ValueError with what is wrong with it."""
    bound = 0

    def written(token: re.Match[str]) -> str:
        nonlocal bound
        if token["skipped"]:
            return token[0]
        if token["number"]:
            raise ValueError(f"holds {token[0]}; the only placeholder is :last")
        if token["name"] != "last":
            raise ValueError(f"holds :{token['name']}; the only placeholder is :last")
        bound += 1
        return f"$1::{kind}"

    statement = _TOKENS.sub(written, query.strip().rstrip(";"))
    if not bound:
        raise ValueError("does not use :last, so every run would read every row; compare it with the column")
    return statement
