"""The fields of forms, in a body or a query."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar import Request

from tocsin.api.http.problems import BAD_REQUEST, INVALID_BODY, INVALID_QUERY, ProblemError, ProblemType
from tocsin.api.http.queries import convert_fields

FORM = "application/x-www-form-urlencoded"
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?P<seconds>:\d\d(\.\d{1,6})?)?")
MOST_FIELDS = 1_100
LARGEST_FORM = 262_144

S = TypeVar("S", bound=msgspec.Struct)


async def form_fields(request: Request[Any, Any, Any]) -> Mapping[str, list[str]]:
    """Return the fields of a form that was posted; raise a problem if the body is none."""
    if request.headers.get("content-type", FORM).partition(";")[0].strip().lower() != FORM:
        raise ProblemError(BAD_REQUEST, f"The body must be {FORM}.")
    fields: defaultdict[str, list[str]] = defaultdict(list)
    try:
        text = (await request.body()).decode()
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS):
            fields[name].append(value)
    except ValueError:
        raise ProblemError(BAD_REQUEST, "The body is not a form, or has too many fields.") from None
    return fields


async def read_form(request: Request[Any, Any, Any], type_: type[S], ignored: str) -> S:
    """Decode a form that was posted, without the field `ignored`; raise a problem with every fault."""
    given = await form_fields(request)
    return _read({name: values for name, values in given.items() if name != ignored}, type_, INVALID_BODY)


def read_filter(request: Request[Any, Any, Any], type_: type[S]) -> S:
    """Decode the query of a form; raise a problem with every fault."""
    given = request.query_params.dict()
    return _read(
        {name: [_with_zone(name, each) for each in values] for name, values in given.items()},
        type_,
        INVALID_QUERY,
    )


def _with_zone(name: str, value: str) -> str:
    """Return a moment with its offset: browsers send what was entered without one, and it is UTC."""
    if name not in {"from", "to"} or (local := _LOCAL.fullmatch(value)) is None:
        return value
    return f"{value}Z" if local["seconds"] else f"{value}:00Z"


def _read(given: Mapping[str, Sequence[str]], type_: type[S], invalid: ProblemType) -> S:
    """Convert fields; those that were left empty count as not given, as browsers send every field."""
    filled = {
        name: kept for name, values in given.items() if (kept := [each for each in values if each.strip()])
    }
    return convert_fields(filled, type_, invalid)
