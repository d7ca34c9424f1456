"""A person's devices: register, list, consent, unregister."""

from collections.abc import Iterable
from datetime import datetime
from math import ceil
from typing import Literal, assert_never, cast
from uuid import UUID

import msgspec

from tocsin.api.http.bodies import decode
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import (
    INVALID_BODY,
    NOT_FOUND,
    NOT_YOUR_USER,
    PUSH_SERVICE_UNAVAILABLE,
    RATE_LIMITED,
    RETRY_SOON,
    ProblemError,
    fault_problem,
    faults_problem,
)
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.person.claims import store_claims
from tocsin.api.routes import PERSON, Routes, Tag
from tocsin.domain.people.device_tokens import registration_faults
from tocsin.domain.people.devices import DeviceSettings
from tocsin.domain.people.locale import normalize
from tocsin.engine.inspect.person import shown_device
from tocsin.providers.sns.errors import SnsUnavailableError, TokenRefusedError
from tocsin.providers.sns.settings import SnsSettings
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import (
    BeingDeleted,
    DeviceRegistration,
    DeviceRow,
    NoDevice,
    RateLimited,
    Registered,
    RegistrationResult,
)
from tocsin.store.secrets.sealing import PREFIX as SEALED
from tocsin.wire.people import ChangeDevice, Device, DeviceList, RegisterDevice, UnregisterDevice

# As often as a person may register in an hour, so that an outage does not use that up.
RETRY_LATER = {"Retry-After": "60"}

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
    problems=(NOT_YOUR_USER, RATE_LIMITED, PUSH_SERVICE_UNAVAILABLE),
    body=RegisterDevice,
    example={"token": "cQx…:APA91b…", "platform": "android", "locale": "tr-TR"},
)
async def register_device(request: ApiRequest) -> Device:
    """Register a device of the person who calls."""
    return await register(request, decode(await request.body(), request.app.state.registration))


async def register(request: ApiRequest, body: RegisterDevice) -> Device:
    """Check a registration and carry it out for the person who calls."""
    services, user_id, now = request.services, request.person, request.now()
    if body.user_id is not None and str(body.user_id) != user_id:
        raise ProblemError(NOT_YOUR_USER, "The user_id of the body is not the user of the token.")
    rules = services.device_rules
    if faults := list(registration_faults(rules, body.provider, body.token, body.token_kind)):
        raise faults_problem(INVALID_BODY, *faults)
    if body.token.startswith(SEALED):
        raise fault_problem("token", "invalid", "is not a token of a provider")
    locale = normalize(body.locale) if body.locale else None
    keys = services.webpush_keys if body.provider == WebPushSettings.section else None
    registration = copy_fields(
        DeviceRegistration,
        body,
        user_id=user_id,
        locale=locale,
        sender_key=keys.key_id if keys else None,
        endpoint=None,
    )
    await store_claims(request)
    arn = None
    if body.provider == SnsSettings.section:
        arn, result = await _register_endpoint(request, registration)
    else:
        result = await devices.register(request.pool, registration, services.devices, now, services.data_keys)
    return msgspec.structs.replace(shown_device(_registered(result, services.devices, now)), endpoint_arn=arn)


async def _register_endpoint(
    request: ApiRequest, registration: DeviceRegistration
) -> tuple[str, RegistrationResult]:
    """Register a device of Amazon SNS, which makes an endpoint for its token."""
    endpoints = request.services.platform_endpoints
    if endpoints is None:
        raise fault_problem("provider", "unavailable", "sns is not configured here")
    application = endpoints.application(registration.platform)
    if application is None:
        message = "has no platform application in the settings of Amazon SNS"
        raise fault_problem("platform", "unavailable", message)
    try:
        return await endpoints.register(registration, application, request.services.devices, request.now())
    except TokenRefusedError:
        message = "is refused by Amazon SNS: it must be a token of the platform's own push service"
        raise fault_problem("token", "invalid", message) from None
    except SnsUnavailableError:
        detail = "Amazon SNS did not register the device."
        raise ProblemError(PUSH_SERVICE_UNAVAILABLE, detail, headers=RETRY_LATER) from None


def _registered(result: RegistrationResult, settings: DeviceSettings, now: datetime) -> DeviceRow:
    match result:
        case Registered(device=device):
            return device
        case RateLimited(again_at=again_at):
            wait = max(1, ceil((again_at - now).total_seconds()))
            raise ProblemError(
                RATE_LIMITED,
                f"At most {settings.registrations_per_hour} registrations an hour are accepted.",
                headers={"Retry-After": str(wait)},
            )
        case NoDevice():
            message = "is the address of a webhook endpoint, not a device's token"
            raise fault_problem("token", "invalid", message)
        case BeingDeleted():
            detail = "The endpoint that the device had is being deleted."
            raise ProblemError(PUSH_SERVICE_UNAVAILABLE, detail, headers=RETRY_SOON)
        case _:
            assert_never(result)


@routes(
    "POST /v1/devices/unregister",
    "Retire one of one's devices, by token, id or endpoint; repeating it changes nothing",
    PERSON,
    problems=(NOT_FOUND,),
    example={"token": "cQx…:APA91b…"},
)
async def unregister_device(request: ApiRequest, body: UnregisterDevice) -> Device:
    """Retire a device of the person who calls."""
    return await unregister(request, body)


async def unregister(request: ApiRequest, body: UnregisterDevice) -> Device:
    """Retire a device of the person who calls; its endpoint at Amazon SNS is deleted shortly after."""
    if sum(each is not None for each in (body.token, body.device_id, body.endpoint_arn)) != 1:
        raise fault_problem("$", "one_of", "must hold exactly one of token, device_id and endpoint_arn")
    row = await devices.unregister(
        request.pool,
        request.person,
        token=body.token or body.endpoint_arn,
        device_id=body.device_id,
        now=request.now(),
    )
    if row is not None and (endpoints := request.services.platform_endpoints):
        endpoints.wake.set()
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
