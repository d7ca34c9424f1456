"""A message as SNS wants it: the payload of the endpoint's push service in JSON, and message attributes."""

from datetime import datetime
from typing import Any

import msgspec

from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import Rejected
from tocsin.providers.apns import render as apns
from tocsin.providers.fcm import render as fcm
from tocsin.providers.rendering import collapse_id, seconds_left
from tocsin.providers.sns.settings import PushService

PAYLOAD_BYTES = 4_096
LONGEST_TTL = 2_419_200

_ATTRIBUTES = "AWS.SNS.MOBILE."
_encode = msgspec.json.Encoder().encode


def token_fault(token: str) -> str | None:
    """Return what is wrong with the token of an app; SNS itself checks the rest of it."""
    if token.startswith("arn:"):
        return "must be the app's own token of FCM or APNs: Tocsin makes the endpoint for it"
    return None


def render(
    message: Message, service: PushService, now: datetime, topic: str | None = None
) -> dict[str, Any] | Rejected:
    """Render what Publish takes besides the endpoint.

    The endpoint belongs to one push service, so the payloads of the others are left out.
    """
    if service == "GCM":
        body = fcm.render_within_sns(message, now)
        attributes = {}
    else:
        message = _without_voip(message)
        body = apns.render(message)
        attributes = _apple_attributes(message, service, now, topic)
    if isinstance(body, Rejected):
        return body
    return {
        "MessageStructure": "json",
        "Message": _encode({"default": message.body, service: body.decode()}).decode(),
        "MessageAttributes": {
            f"{_ATTRIBUTES}{name}": {"DataType": "String", "StringValue": value}
            for name, value in attributes.items()
        },
    }


def _without_voip(message: Message) -> Message:
    """Make an alert of a VoIP push: SNS has platform applications of another kind for those."""
    if message.appearance.push_type != "voip":
        return message
    appearance = msgspec.structs.replace(message.appearance, push_type="alert")
    return msgspec.structs.replace(message, appearance=appearance)


def _apple_attributes(
    message: Message, service: PushService, now: datetime, topic: str | None
) -> dict[str, str]:
    headers = apns.type_headers(message.appearance.push_type, topic or "")
    attributes = {
        "APNS.PUSH_TYPE": headers["apns-push-type"],
        "APNS.PRIORITY": headers["apns-priority"],
        "APNS.COLLAPSE_ID": collapse_id(message.collapse_key or str(message.delivery_id)),
    }
    if topic:
        attributes["APNS.TOPIC"] = headers["apns-topic"]
    if (seconds := seconds_left(message, now, LONGEST_TTL)) is not None:
        attributes[f"{service}.TTL"] = str(seconds)
    return attributes
