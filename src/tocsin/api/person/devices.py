"""A person's devices: register, list, consent, unregister."""

from collections.abc import Iterable
from math import ceil
from typing import Literal, cast
from uuid import UUID

import msgspec

from tocsin.api.http.bodies import decode
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import (
    INVALID_BODY,
    NOT_FOUND,
    NOT_YOUR_USER,
    RATE_LIMITED,
    ProblemError,
    fault_problem,
    faults_problem,
)
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PERSON, Routes, Tag
from tocsin.domain.people.device_tokens import registration_faults
from tocsin.domain.people.locale import normalize
from tocsin.engine.inspect.person import shown_device
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, DeviceRow, NoDevice, RateLimited
from tocsin.store.secrets.sealing import PREFIX as SEALED
from tocsin.wire.people import ChangeDevice, Device, DeviceList, RegisterDevice, UnregisterDevice

routes = Routes(Tag.DEVICES)


def registration_type(providers: Iterable[str]) -> type[RegisterDevice]:
    """Build the request type whose `provider` is one of `providers`, so that faults and OpenAPI list them."""
    field = ("provider", Literal[tuple(providers)], "fcm")
    return cast(
        "type[RegisterDevice]",
        msgspec.defstruct("RegisterDevice", [field], bases=(RegisterDevice,), kw_only=True),
    )


class WhichDevices(Query, frozen=True, kw_only=True):
    """Which of the person's devices to list."""

    include_retired: bool = False


@routes(
    "POST /v1/devices/register",
    "Register a device, or mark it as seen; a token moves to whoever registers it",
    PERSON,
    problems=(NOT_YOUR_USER, RATE_LIMITED),
    body=RegisterDevice,
    example={"token": "cQx…:APA91b…", "platform": "android", "locale": "tr-TR"},
)
async def register_device(request: ApiRequest) -> Device:
    """Register a device of the person who calls."""
    body: RegisterDevice = decode(await request.body(), request.app.state.registration)
    settings, user_id, now = request.services.devices, request.person, request.now()
    if body.user_id is not None and str(body.user_id) != user_id:
        raise ProblemError(NOT_YOUR_USER, "The user_id of the body is not the user of the token.")
    rules = request.services.device_rules
    if faults := list(registration_faults(rules, body.provider, body.token, body.token_kind)):
        raise faults_problem(INVALID_BODY, *faults)
    if body.token.startswith(SEALED):
        raise fault_problem("token", "invalid", "is not a token of a provider")
    locale = normalize(body.locale) if body.locale else None
    keys = request.services.webpush_keys if body.provider == WebPushSettings.section else None
    registration = copy_fields(
        DeviceRegistration, body, user_id=user_id, locale=locale, sender_key=keys.key_id if keys else None
    )
    result = await devices.register(request.pool, registration, settings, now, request.services.data_keys)
    if isinstance(result, RateLimited):
        wait = max(1, ceil((result.again_at - now).total_seconds()))
        raise ProblemError(
            RATE_LIMITED,
            f"At most {settings.registrations_per_hour} registrations an hour are accepted.",
            headers={"Retry-After": str(wait)},
        )
    if isinstance(result, NoDevice):
        raise fault_problem("token", "invalid", "is the address of a webhook endpoint, not a device's token")
    return shown_device(result.device)


@routes(
    "POST /v1/devices/unregister",
    "Retire one of one's devices, by token or id; repeating it changes nothing",
    PERSON,
    problems=(NOT_FOUND,),
    example={"token": "cQx…:APA91b…"},
)
async def unregister_device(request: ApiRequest, body: UnregisterDevice) -> Device:
    """Retire a device of the person who calls."""
    if (body.token is None) == (body.device_id is None):
        raise fault_problem("$", "one_of", "must hold exactly one of token and device_id")
    row = await devices.unregister(
        request.pool, request.person, token=body.token, device_id=body.device_id, now=request.now()
    )
    return _found(row)


@routes("GET /v1/devices", "List one's devices", PERSON)
async def list_devices(request: ApiRequest, query: WhichDevices) -> DeviceList:
    """List the devices of the person who calls."""
    rows = await devices.of_user(request.pool, request.person, include_retired=query.include_retired)
    return DeviceList([shown_device(row) for row in rows])


@routes(
    "PATCH /v1/devices/{device_id}",
    "Allow or stop pushes to a device",
    PERSON,
    example={"push_enabled": False},
)
async def change_device(request: ApiRequest, device_id: UUID, body: ChangeDevice) -> Device:
    """Store the consent of the person who calls."""
    return _found(
        await devices.set_consent(request.pool, request.person, device_id, push_enabled=body.push_enabled)
    )


def _found(row: DeviceRow | None) -> Device:
    if row is None:
        raise ProblemError(NOT_FOUND, "You have no such device.")
    return shown_device(row)
