"""What each call is, said once: the gate admits by it and the OpenAPI document is drawn from it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import Kind


class Tag(StrEnum):
    """The groups of calls."""

    DEVICES = "devices"
    PREFERENCES = "preferences"
    NOTIFICATIONS = "notifications"
    USERS = "users"
    ADMIN = "admin"
    PROBES = "probes"


class AnyoneMay(msgspec.Struct, frozen=True):
    """Nobody has to say who they are."""


class PersonMay(msgspec.Struct, frozen=True):
    """A person may, by the token of their app."""


class KeyMay(msgspec.Struct, frozen=True):
    """The holder of an API key may, if its role has the right."""

    right: Right


Access = AnyoneMay | PersonMay | KeyMay


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call: who may make it, what goes in and what can come out."""

    tag: Tag
    summary: str
    access: Access
    answers: Mapping[int, Any]
    answer_type: str = "application/json"
    body: Any = None
    body_type: str = "application/json"
    query: type[msgspec.Struct] | None = None
    headers: Mapping[str, str] = {}
    problems: tuple[Kind, ...] = ()
    example: Any = None


OPERATION: Literal["operation"] = "operation"


def declared(operation: Operation) -> dict[str, Operation]:
    """Give the options of a route handler that carry its operation."""
    return {OPERATION: operation}
