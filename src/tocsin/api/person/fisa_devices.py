"""The paths of fisa's own document, in front of the calls for devices; on with `http.fisa_paths`."""

from tocsin.api.http.problems import NOT_FOUND, PUSH_SERVICE_UNAVAILABLE, RATE_LIMITED, fault_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.person.devices import register, unregister
from tocsin.api.routes import PERSON, Routes, Tag
from tocsin.providers.sns.settings import SnsSettings
from tocsin.wire.fisa.devices import (
    RegisteredFisaDevice,
    RegisterFisaDevice,
    UnregisteredFisaDevice,
    UnregisterFisaDevice,
)
from tocsin.wire.people import RegisterDevice, UnregisterDevice

routes = Routes(Tag.DEVICES)


@routes(
    "POST /api/v1/notifications/devices/register",
    "Register the token of a device and bind it to an endpoint of Amazon SNS (fisa)",
    PERSON,
    problems=(RATE_LIMITED, PUSH_SERVICE_UNAVAILABLE),
    example={"platform": "android", "fcm_token": "cQx…:APA91b…", "device_model": "Pixel 9"},
)
async def register_fisa_device(request: ApiRequest, body: RegisterFisaDevice) -> RegisteredFisaDevice:
    """Register a device of the person who calls."""
    field = body.token_field
    token: str | None = getattr(body, field)
    if token is None or not token.strip():
        raise fault_problem(field, "missing", f"is needed for the platform {body.platform}")
    device = await register(
        request,
        RegisterDevice(
            token=token,
            platform=body.platform,
            provider=SnsSettings.section,
            device_model=body.device_model,
            app_version=body.app_version,
        ),
    )
    return RegisteredFisaDevice(endpoint_arn=device.endpoint_arn or "")


@routes(
    "POST /api/v1/notifications/devices/unregister",
    "Retire a device and delete its endpoint (fisa); repeating it changes nothing",
    PERSON,
    problems=(NOT_FOUND,),
    example={"endpoint_arn": "arn:aws:sns:ap-southeast-1:123456789012:endpoint/GCM/fisa-android/5f1e…"},
)
async def unregister_fisa_device(request: ApiRequest, body: UnregisterFisaDevice) -> UnregisteredFisaDevice:
    """Retire a device of the person who calls."""
    given = [each for each in (body.endpoint_arn, body.fcm_token, body.apns_token) if each is not None]
    if len(given) != 1:
        raise fault_problem("$", "one_of", "must hold exactly one of endpoint_arn, fcm_token and apns_token")
    await unregister(request, UnregisterDevice(token=given[0]))
    return UnregisteredFisaDevice()
