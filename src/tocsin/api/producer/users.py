"""The directory of people: e-mail, language, time zone, the hours they may be disturbed."""

from collections import Counter
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from litestar import Request, get, put
from litestar.response.base import ASGIResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.checks import ShortText, known_locale, known_timezone, readable_window
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.intent import EmailAddress, NumericUserId, UserId
from tocsin.domain.people.locale import normalize
from tocsin.domain.timing.windows import ALWAYS, Window
from tocsin.store.people import users
from tocsin.store.people.users import UserRow

LARGEST_BULK = 1_000

GmtOffset = Annotated[int, Meta(ge=-43_200, le=50_400)]

_CHECKS = {"locale": known_locale, "timezone": known_timezone, "allowed_window": readable_window}


class PutUser(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be known of a person; what is left out is forgotten."""

    checks: ClassVar = _CHECKS

    email: EmailAddress | None = None
    locale: ShortText | None = None
    timezone: ShortText | None = None
    gmt_offset_seconds: GmtOffset | None = None
    allowed_window: ShortText | None = None


class PutNamedUser(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be known of the person named."""

    checks: ClassVar = _CHECKS

    user_id: UserId | NumericUserId
    email: EmailAddress | None = None
    locale: ShortText | None = None
    timezone: ShortText | None = None
    gmt_offset_seconds: GmtOffset | None = None
    allowed_window: ShortText | None = None


class PutUsers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Several people, each at most once; all are stored or none."""

    users: Annotated[list[PutNamedUser], Meta(min_length=1, max_length=LARGEST_BULK)]


class StoredUsers(msgspec.Struct, frozen=True):
    """How many people were stored."""

    stored: int


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person in the directory."""

    user_id: str
    email: str | None
    locale: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None
    updated_at: datetime


@put(
    "/v1/users/{user_id:str}",
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary="Store what is known of a person",
            access=KeyMay(Right.CHANGE_USERS),
            body=PutUser,
            answers={200: User},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={
                "email": "ada@example.com",
                "locale": "en-GB",
                "timezone": "Europe/London",
                "allowed_window": "08:00-23:00",
            },
        )
    ),
)
async def put_user(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Store one person."""
    services = services_of(request)
    wanted = decode(await request.body(), PutUser)
    row = _row(_checked_id(read_path(request, "user_id")), wanted, services.clock())
    await users.put(services.pool, [row])
    return reply(_shown(row))


@put(
    "/v1/users",
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary=f"Store what is known of up to {LARGEST_BULK:,} people",
            access=KeyMay(Right.CHANGE_USERS),
            body=PutUsers,
            answers={200: StoredUsers},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"users": [{"user_id": "42", "locale": "tr-TR", "timezone": "Europe/Istanbul"}]},
        )
    ),
)
async def put_users(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Store many people at once."""
    services = services_of(request)
    wanted = decode(await request.body(), PutUsers).users
    _refuse_repeated(wanted)
    now = services.clock()
    await users.put(services.pool, [_row(str(user.user_id), user, now) for user in wanted])
    return reply(StoredUsers(len(wanted)))


@get(
    "/v1/users/{user_id:str}",
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary="Read what is known of a person",
            access=KeyMay(Right.SEE_USERS),
            answers={200: User},
            problems=(NOT_FOUND,),
        )
    ),
)
async def get_user(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Read one person."""
    user_id = read_path(request, "user_id")
    row = await users.get(services_of(request).pool, user_id) if "\x00" not in user_id else None
    if row is None:
        raise ProblemError(NOT_FOUND, "Nothing is known of this person.")
    return reply(_shown(row))


def _checked_id(user_id: str) -> str:
    try:
        return msgspec.convert(user_id, UserId)
    except msgspec.ValidationError:
        fault = Fault(
            field="user_id", code="invalid", message="must be 1 to 128 characters without control characters"
        )
        raise faulty(INVALID_BODY, [fault]) from None


def _refuse_repeated(wanted: list[PutNamedUser]) -> None:
    repeated = {
        user_id for user_id, times in Counter(str(user.user_id) for user in wanted).items() if times > 1
    }
    faults = [
        Fault(field=f"users[{index}].user_id", code="repeated", message="is in the list more than once")
        for index, user in enumerate(wanted)
        if str(user.user_id) in repeated
    ]
    if faults:
        raise faulty(INVALID_BODY, faults)


def _row(user_id: str, wanted: PutUser | PutNamedUser, now: datetime) -> UserRow:
    return UserRow(
        user_id=user_id,
        email=wanted.email,
        locale=normalize(wanted.locale) if wanted.locale else None,
        timezone=wanted.timezone,
        gmt_offset_seconds=wanted.gmt_offset_seconds,
        allowed_window=_window(wanted.allowed_window) if wanted.allowed_window else None,
        updated_at=now,
    )


def _window(text: str) -> str:
    """Write a window in its one usual way."""
    window = Window.parse(text)
    return "always" if window == ALWAYS else str(window)


def _shown(row: UserRow) -> User:
    return User(**msgspec.structs.asdict(row))
