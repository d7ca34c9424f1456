"""The directory of users: e-mail, language, time zone, allowed hours, attributes and organisation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from tocsin.api.auth.roles import Right
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_BODY, NOT_FOUND, ProblemError, fault_problem, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.faults import Fault
from tocsin.domain.intent import UserId
from tocsin.domain.people.locale import normalize
from tocsin.domain.people.organisations import NOT_YOURS
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
    within_organisation=True,
)
async def put_user(request: ApiRequest, user_id: str, body: PutUser) -> User:
    """Store one user."""
    try:
        checked = msgspec.convert(user_id, UserId)
    except msgspec.ValidationError:
        message = "must be 1 to 128 characters without control characters"
        raise fault_problem("user_id", "invalid", message) from None
    [row] = await _store(request, [copy_fields(PutNamedUser, body, user_id=checked)], [""])
    return copy_fields(User, row)


@routes(
    "PUT /v1/users",
    f"Store the data of up to {LARGEST_BULK:,} users",
    Right.CHANGE_USERS,
    example={"users": [{"user_id": "42", "locale": "tr-TR", "timezone": "Europe/Istanbul"}]},
    within_organisation=True,
)
async def put_users(request: ApiRequest, body: PutUsers) -> StoredUsers:
    """Store many users at once."""
    _refuse_repeated(body.users)
    await _store(request, body.users, [f"users[{index}]." for index in range(len(body.users))])
    return StoredUsers(len(body.users))


@routes(
    "GET /v1/users/{user_id}",
    "Read the data of a user",
    Right.SEE_USERS,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def get_user(request: ApiRequest, user_id: str) -> User:
    """Read one user."""
    row = await users.get(request.pool, user_id) if "\x00" not in user_id else None
    if row is None or request.holder.org_id not in {None, row.org_id}:
        raise ProblemError(NOT_FOUND, "The directory has no such user.")
    return copy_fields(User, row)


async def _store(request: ApiRequest, wanted: Sequence[PutNamedUser], paths: Sequence[str]) -> list[UserRow]:
    """Store users, those of the caller's organisation alone if it is bound to one; or raise which are not."""
    own, now = request.holder.org_id, request.now()
    if own is None:
        unmoved = [str(user.user_id) for user in wanted if user.org_id is UNSET]
        rows = [_row(user, user.org_id or None, now) for user in wanted]
        return await users.put(request.pool, rows, unmoved=unmoved)
    other = [path for path, user in zip(paths, wanted, strict=True) if user.org_id not in {UNSET, own}]
    if other:
        raise _not_yours(f"{path}org_id" for path in other)
    rows = [_row(user, own, now) for user in wanted]
    async with request.pool.acquire() as connection, connection.transaction():
        if refused := await users.put_within(connection, rows, own):
            raise _not_yours(
                f"{path}user_id" for path, row in zip(paths, rows, strict=True) if row.user_id in refused
            )
    return rows


def _not_yours(fields: Iterable[str]) -> ProblemError:
    message = "is not of the organisation that the caller is bound to"
    faults = [Fault(field=field, code=NOT_YOURS, message=message) for field in fields]
    return faults_problem(INVALID_BODY, *faults)


def _refuse_repeated(wanted: list[PutNamedUser]) -> None:
    times = Counter(str(user.user_id) for user in wanted)
    faults = [
        Fault(field=f"users[{index}].user_id", code="repeated", message="is in the list more than once")
        for index, user in enumerate(wanted)
        if times[str(user.user_id)] > 1
    ]
    if faults:
        raise faults_problem(INVALID_BODY, *faults)


def _row(wanted: PutNamedUser, org_id: str | None, now: datetime) -> UserRow:
    return copy_fields(
        UserRow,
        wanted,
        user_id=str(wanted.user_id),
        org_id=org_id,
        locale=normalize(wanted.locale) if wanted.locale else None,
        allowed_window=_window(wanted.allowed_window) if wanted.allowed_window else None,
        attributes=wanted.attributes or {},
        updated_at=now,
    )


def _window(text: str) -> str:
    """Return a window in its normal form."""
    window = Window.parse(text)
    return "always" if window == ALWAYS else str(window)
