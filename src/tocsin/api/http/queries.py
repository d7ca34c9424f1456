"""Query parameters and pages of lists."""

from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin
from uuid import UUID

import msgspec
from litestar import Request

from tocsin.api.http.bodies import plain_message
from tocsin.api.http.problems import INVALID_QUERY, ProblemType, faults_problem
from tocsin.api.settings import LARGEST_PAGE
from tocsin.domain.faults import Fault
from tocsin.domain.ids import LAST

S = TypeVar("S", bound=msgspec.Struct)
Row = TypeVar("Row")
Cursor = TypeVar("Cursor")

PageLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE)]


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of a call."""


class Page(Query, frozen=True, kw_only=True):
    """A page of a list, newest first: at most `limit` items older than the id `before`."""

    before: UUID | None = None
    limit: PageLimit = 50

    @property
    def cursor(self) -> UUID:
        """The id that every item of the page is older than."""
        return self.before or LAST


def next_cursor(rows: Sequence[Row], limit: int, cursor: Callable[[Row], Cursor]) -> Cursor | None:
    """Return the `before` of the following page, or None after the last one."""
    return cursor(rows[-1]) if len(rows) == limit else None


def read_query(request: Request[Any, Any, Any], query: type[S]) -> S:
    """Decode the query parameters; raise a problem with every fault."""
    return convert_fields(request.query_params.dict(), query, INVALID_QUERY)


def convert_fields(given: Mapping[str, Sequence[str]], type_: type[S], invalid: ProblemType) -> S:
    """Convert texts by name into a struct; of several for one name the last counts, unless it is a list."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    faults = [
        Fault(field=name[:100], code="unknown", message=f"is not known here; known are {', '.join(fields)}")
        for name in given.keys() - fields.keys()
    ]
    faults += (
        Fault(field=name, code="missing", message="is required")
        for name, field in fields.items()
        if field.required and name not in given
    )
    read = {}
    for name in given.keys() & fields.keys():
        field = fields[name]
        try:
            value = given[name] if _is_list(field.type) else given[name][-1]
            read[field.name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError as error:
            message = plain_message(str(error), field.type)
            faults.append(Fault(field=name, code="invalid", message=message))
    if faults:
        raise faults_problem(invalid, *sorted(faults, key=lambda fault: fault.field))
    return type_(**read)


def _is_list(type_: Any) -> bool:
    """Return whether a field is a list, be it optional or with bounds."""
    if get_origin(type_) is Annotated:
        return _is_list(get_args(type_)[0])
    return get_origin(type_) is list or (
        get_origin(type_) in {Union, UnionType} and any(map(_is_list, get_args(type_)))
    )
