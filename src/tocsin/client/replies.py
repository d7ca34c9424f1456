"""Reading a reply: the value it holds, or the error it stands for."""

from typing import TypeVar
from uuid import UUID

import msgspec

from tocsin.client.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TocsinError,
    UnauthorizedError,
    UnreadableError,
)
from tocsin.client.exchange import Reply
from tocsin.domain.faults import Fault

T = TypeVar("T")

_FIRST_REDIRECT, _FIRST_FAULT = 300, 400


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer that is a problem (RFC 9457)."""

    code: str
    detail: str = ""
    errors: list[Fault] = []
    notification_id: UUID | None = None


def read(reply: Reply, kind: type[T]) -> T:
    """Give what a reply holds, or raise what it stands for."""
    if reply.status >= _FIRST_FAULT:
        raise _error(reply)
    if reply.status >= _FIRST_REDIRECT:
        raise UnreadableError(reply.status, f"it leads on to {reply.location or 'somewhere else'}")
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(reply.status, str(error)) from None


def _error(reply: Reply) -> TocsinError:
    try:
        problem = msgspec.json.decode(reply.body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UnreadableError(reply.status, "its body is no problem description")
    match reply.status:
        case 401:
            return UnauthorizedError(problem.detail)
        case 403:
            return ForbiddenError(problem.code, problem.detail)
        case 404:
            return NotFoundError(problem.detail)
        case 409:
            return ConflictError(problem.notification_id)
        case _:
            return RefusedError(problem.code, problem.detail, problem.errors)
