"""Reading query and path parameters."""

from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from litestar import Request

from tocsin.api.http.problems import INVALID_QUERY, NOT_FOUND, ProblemError, faulty
from tocsin.domain.faults import Fault

LAST = UUID(int=(1 << 128) - 1)

Q = TypeVar("Q", bound=msgspec.Struct)


class Page(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stretch of a list that goes back in time: what came before an id, at most so many."""

    before: UUID | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 50


def read_query(request: Request[Any, Any, Any], kind: type[Q]) -> Q:
    """Read the query parameters, or end the request with everything that is wrong with them."""
    given = request.query_params.dict()
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    faults = [
        Fault(field=name[:100], code="unknown", message=f"is not known here; known are {', '.join(fields)}")
        for name in given.keys() - fields.keys()
    ]
    read = {}
    for name in given.keys() & fields.keys():
        try:
            read[name] = msgspec.convert(given[name][-1], fields[name].type, strict=False)
        except msgspec.ValidationError as error:
            message = str(error)
            faults.append(Fault(field=name, code="invalid", message=message[:1].lower() + message[1:]))
    if faults:
        raise faulty(INVALID_QUERY, sorted(faults, key=lambda fault: fault.field))
    return kind(**read)


def read_path(request: Request[Any, Any, Any], name: str) -> str:
    """Read a part of the path."""
    text: str = request.path_params[name]
    return text


def read_path_id(request: Request[Any, Any, Any], name: str) -> UUID:
    """Read an id from the path; what is no id names nothing."""
    try:
        return UUID(read_path(request, name))
    except ValueError:
        raise ProblemError(NOT_FOUND, "There is nothing with such an id.") from None
