"""A person's devices: register, list, consent, unregister."""

from collections.abc import Iterable
from datetime import datetime
from math import ceil
from typing import Any, ClassVar, Literal, cast
from uuid import UUID

import msgspec
from litestar import Request, get, patch, post
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import person_of
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.checks import ShortText, known_locale, known_timezone, not_blank
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    NOT_YOUR_USER,
    RATE_LIMITED,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import Operation, PersonMay, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.intent import NumericUserId, UserId
from tocsin.domain.people.device_tokens import USUAL_KIND, TokenKind, registration_faults
from tocsin.domain.people.devices import DeviceToken, Platform, ProviderName, short_hash
from tocsin.domain.people.locale import normalize
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, DeviceRow, NoDevice, RateLimited

LARGEST_BODY = 65_536

_NO_DEVICE = "You have no such device."


class RegisterDevice(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as its app registers it; the token says whose it is."""

    checks: ClassVar = {
        "token": not_blank,
        "replaces_token": not_blank,
        "locale": known_locale,
        "timezone": known_timezone,
    }

    token: DeviceToken
    platform: Platform
    provider: ProviderName = "fcm"
    token_kind: TokenKind = USUAL_KIND
    user_id: UserId | NumericUserId | None = None
    locale: ShortText | None = None
    timezone: ShortText | None = None
    app_version: ShortText | None = None
    device_model: ShortText | None = None
    replaces_token: DeviceToken | None = None


def registration_type(providers: Iterable[str]) -> type[RegisterDevice]:
    """Build the request type whose `provider` is one of `providers`, so that faults and OpenAPI list them."""
    field = ("provider", Literal[tuple(providers)], "fcm")
    return cast(
        "type[RegisterDevice]",
        msgspec.defstruct("RegisterDevice", [field], bases=(RegisterDevice,), kw_only=True),
    )


class UnregisterDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The device to retire, by its token or by its id."""

    token: DeviceToken | None = None
    device_id: UUID | None = None


class ChangeDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the person wants pushes on this device."""

    push_enabled: bool


class WhichDevices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of one's devices to list."""

    include_retired: bool = False


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its owner sees it; of the token only a short hash.

    `stale` tells that it has not been seen for long; registering it again mends that.
    """

    device_id: UUID
    user_id: str
    provider: str
    platform: str
    token_hash: str
    token_kind: TokenKind
    locale: str | None
    timezone: str | None
    app_version: str | None
    device_model: str | None
    push_enabled: bool
    notification_count: int
    last_sent_at: datetime | None
    registered_at: datetime
    last_seen_at: datetime
    stale: bool
    retired_at: datetime | None
    retired_reason: str | None


class DeviceList(msgspec.Struct, frozen=True):
    """One's devices, the active first."""

    devices: list[Device]


@post(
    "/v1/devices/register",
    status_code=200,
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.DEVICES,
            summary="Register a device, or see it again; a token moves to whoever registers it",
            access=PersonMay(),
            body=RegisterDevice,
            answers={200: Device},
            problems=(MALFORMED_JSON, NOT_YOUR_USER, BODY_TOO_LARGE, INVALID_BODY, RATE_LIMITED),
            example={"token": "cQx…:APA91b…", "platform": "android", "locale": "tr-TR"},
        )
    ),
)
async def register_device(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give a token to the person who asks."""
    services, user_id = services_of(request), person_of(request)
    wanted = decode(await request.body(), request.app.state.registration)
    if wanted.user_id is not None and str(wanted.user_id) != user_id:
        raise ProblemError(NOT_YOUR_USER, "The user_id of the body is not the user of the token.")
    faults = registration_faults(services.device_rules, wanted.provider, wanted.token, wanted.token_kind)
    if found := list(faults):
        raise faulty(INVALID_BODY, found)
    now = services.clock()
    result = await devices.register(services.pool, _registration(wanted, user_id), services.devices, now)
    if isinstance(result, RateLimited):
        wait = max(1, ceil((result.again_at - now).total_seconds()))
        raise ProblemError(
            RATE_LIMITED,
            f"At most {services.devices.registrations_per_hour} registrations an hour are taken.",
            headers={"Retry-After": str(wait)},
        )
    if isinstance(result, NoDevice):
        message = "is the address of a webhook endpoint, not a device's token"
        raise faulty(INVALID_BODY, [Fault(field="token", code="invalid", message=message)])
    return reply(_shown(result.device))


@post(
    "/v1/devices/unregister",
    status_code=200,
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.DEVICES,
            summary="Retire one of one's devices, by token or id; doing it again changes nothing",
            access=PersonMay(),
            body=UnregisterDevice,
            answers={200: Device},
            problems=(MALFORMED_JSON, NOT_FOUND, BODY_TOO_LARGE, INVALID_BODY),
            example={"token": "cQx…:APA91b…"},
        )
    ),
)
async def unregister_device(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Retire a device of the person who asks."""
    services = services_of(request)
    which = decode(await request.body(), UnregisterDevice)
    if (which.token is None) == (which.device_id is None):
        fault = Fault(field="$", code="one_of", message="must hold exactly one of token and device_id")
        raise faulty(INVALID_BODY, [fault])
    row = await devices.unregister(
        services.pool,
        person_of(request),
        token=which.token,
        device_id=which.device_id,
        now=services.clock(),
    )
    return _found(row)


@get(
    "/v1/devices",
    opt=declared(
        Operation(
            tag=Tag.DEVICES,
            summary="List one's devices",
            access=PersonMay(),
            query=WhichDevices,
            answers={200: DeviceList},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_devices(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List the devices of the person who asks."""
    which = read_query(request, WhichDevices)
    rows = await devices.of_user(
        services_of(request).pool, person_of(request), include_retired=which.include_retired
    )
    return reply(DeviceList([_shown(row) for row in rows]))


@patch(
    "/v1/devices/{device_id:str}",
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.DEVICES,
            summary="Say whether one wants pushes on a device",
            access=PersonMay(),
            body=ChangeDevice,
            answers={200: Device},
            problems=(MALFORMED_JSON, NOT_FOUND, BODY_TOO_LARGE, INVALID_BODY),
            example={"push_enabled": False},
        )
    ),
)
async def change_device(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Store the consent of the person who asks."""
    which = read_path_id(request, "device_id")
    wanted = decode(await request.body(), ChangeDevice)
    row = await devices.set_consent(
        services_of(request).pool, person_of(request), which, push_enabled=wanted.push_enabled
    )
    return _found(row)


def _registration(wanted: RegisterDevice, user_id: str) -> DeviceRegistration:
    return DeviceRegistration(
        user_id=user_id,
        token=wanted.token,
        platform=wanted.platform,
        provider=wanted.provider,
        token_kind=wanted.token_kind,
        locale=normalize(wanted.locale) if wanted.locale else None,
        timezone=wanted.timezone,
        app_version=wanted.app_version,
        device_model=wanted.device_model,
        replaces_token=wanted.replaces_token,
    )


def _found(row: DeviceRow | None) -> ASGIResponse:
    if row is None:
        raise ProblemError(NOT_FOUND, _NO_DEVICE)
    return reply(_shown(row))


def _shown(row: DeviceRow) -> Device:
    fields = msgspec.structs.asdict(row)
    device_id, digest, stale_at = fields.pop("id"), fields.pop("token_hash"), fields.pop("stale_at")
    return Device(device_id=device_id, token_hash=short_hash(digest), stale=stale_at is not None, **fields)
