"""Decoding a reply into its value, or raising the error it stands for."""

from typing import TypeVar

import msgspec

from tocsin.client.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    UnauthorizedError,
    UnreadableError,
)
from tocsin.client.exchange import ApiReply, Call, Flow
from tocsin.domain.errors import TocsinError
from tocsin.wire.problems import Problem

T = TypeVar("T")

_FIRST_REDIRECT, _FIRST_FAULT = 300, 400


def call(
    answer: type[T],
    method: str,
    path: str,
    body: object = None,
    *,
    query: tuple[tuple[str, str], ...] = (),
) -> Flow[T]:
    """Make one call, its body encoded as JSON, and return the decoded answer."""
    encoded = None if body is None else msgspec.json.encode(body)
    return read((yield Call(method, path, encoded, query)), answer)


def read(reply: ApiReply, answer: type[T]) -> T:
    """Decode a reply, or raise the error it stands for."""
    if reply.status >= _FIRST_FAULT:
        raise _error(reply)
    if reply.status >= _FIRST_REDIRECT:
        raise UnreadableError(reply.status, f"it redirects to {reply.location or 'an unknown address'}")
    try:
        return msgspec.json.decode(reply.body, type=answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableError(reply.status, str(error)) from None


def _error(reply: ApiReply) -> TocsinError:
    try:
        problem = msgspec.json.decode(reply.body, type=Problem)
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
            return RefusedError(problem.code, problem.detail, problem.errors or ())
