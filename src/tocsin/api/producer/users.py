"""The directory of users: e-mail, language, time zone, allowed hours and custom attributes."""

from collections import Counter
from datetime import datetime

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_BODY, NOT_FOUND, ProblemError, fault_problem, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.faults import Fault
from tocsin.domain.intent import UserId
from tocsin.domain.people.locale import normalize
from tocsin.domain.timing.windows import ALWAYS, Window
from tocsin.store.people import users
from tocsin.store.people.users import UserRow
from tocsin.wire.people import LARGEST_BULK, PutNamedUser, PutUser, PutUsers, StoredUsers, User

routes = Routes(Tag.USERS)


@routes(
    "PUT /v1/users/{user_id}",
    "Store the data of a user",
    Right.CHANGE_USERS,
    example={
        "email": "ada@example.com",
        "locale": "en-GB",
        "timezone": "Europe/London",
        "allowed_window": "08:00-23:00",
        "attributes": {"plan": "pro", "seats": 5, "interests": ["news", "offers"]},
    },
)
async def put_user(request: ApiRequest, user_id: str, body: PutUser) -> User:
    """Store one user."""
    try:
        checked = msgspec.convert(user_id, UserId)
    except msgspec.ValidationError:
        message = "must be 1 to 128 characters without control characters"
        raise fault_problem("user_id", "invalid", message) from None
    row = _row(checked, body, request.now())
    await users.put(request.pool, [row])
    return copy_fields(User, row)


@routes(
    "PUT /v1/users",
    f"Store the data of up to {LARGEST_BULK:,} users",
    Right.CHANGE_USERS,
    example={"users": [{"user_id": "42", "locale": "tr-TR", "timezone": "Europe/Istanbul"}]},
)
async def put_users(request: ApiRequest, body: PutUsers) -> StoredUsers:
    """Store many users at once."""
    _refuse_repeated(body.users)
    now = request.now()
    await users.put(request.pool, [_row(str(user.user_id), user, now) for user in body.users])
    return StoredUsers(len(body.users))


@routes("GET /v1/users/{user_id}", "Read the data of a user", Right.SEE_USERS, problems=(NOT_FOUND,))
async def get_user(request: ApiRequest, user_id: str) -> User:
    """Read one user."""
    row = await users.get(request.pool, user_id) if "\x00" not in user_id else None
    if row is None:
        raise ProblemError(NOT_FOUND, "The directory has no such user.")
    return copy_fields(User, row)


def _refuse_repeated(wanted: list[PutNamedUser]) -> None:
    times = Counter(str(user.user_id) for user in wanted)
    faults = [
        Fault(field=f"users[{index}].user_id", code="repeated", message="is in the list more than once")
        for index, user in enumerate(wanted)
        if times[str(user.user_id)] > 1
    ]
    if faults:
        raise faults_problem(INVALID_BODY, *faults)


def _row(user_id: str, wanted: PutUser, now: datetime) -> UserRow:
    return copy_fields(
        UserRow,
        wanted,
        user_id=user_id,
        locale=normalize(wanted.locale) if wanted.locale else None,
        allowed_window=_window(wanted.allowed_window) if wanted.allowed_window else None,
        attributes=wanted.attributes or {},
        updated_at=now,
    )


def _window(text: str) -> str:
    """Return a window in its normal form."""
    window = Window.parse(text)
    return "always" if window == ALWAYS else str(window)
