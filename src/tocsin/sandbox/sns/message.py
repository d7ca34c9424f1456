"""The check of what is published to an endpoint, and what reaches its device."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.sandbox.sns.errors import refuse
from tocsin.sandbox.stand_in import delivery_id_in

LARGEST_MESSAGE = 262_144
LARGEST_PAYLOAD = 4_096
_PREFIX = "MessageAttributes.entry."
_KEYS = ("Name", "Value.DataType", "Value.StringValue")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Published(msgspec.Struct, frozen=True):
    """What an endpoint's push service gets: its payload, and the message attributes."""

    service: str
    payload: dict[str, Any]
    attributes: dict[str, str]

    @property
    def content(self) -> dict[str, Any]:
        """The message as it reaches the device."""
        return {"service": self.service, "payload": self.payload, "attributes": self.attributes}

    @property
    def delivery_id(self) -> str | None:
        """The delivery id in the data for the app."""
        message = self.payload.get("fcmV1Message")
        within = message.get("message") if isinstance(message, dict) else None
        return delivery_id_in(within.get("data") if isinstance(within, dict) else self.payload)


def parse_publish(form: Mapping[str, str], service: str) -> Published:
    """Parse the message of a request for one push service, or refuse it as SNS does."""
    text = form.get("Message", "")
    if not text:
        raise refuse("InvalidParameter", "Invalid parameter: Empty message")
    if len(text.encode()) > LARGEST_MESSAGE:
        raise refuse("InvalidParameter", "Invalid parameter: Message too long")
    attributes = _attributes(form)
    if form.get("MessageStructure") != "json":
        return Published(service, {"default": text}, attributes)
    by_service = _parsed(text, "Message Structure - JSON message body failed to parse")
    if not isinstance(by_service.get("default"), str):
        raise refuse(
            "InvalidParameter", "Invalid parameter: Message Structure - No default entry in JSON message body"
        )
    raw = by_service.get(service, by_service["default"])
    if not isinstance(raw, str):
        raise refuse("InvalidParameter", f"Invalid parameter: Message Structure - {service} must be a String")
    payload = _parsed(raw, f"Message Reason: Invalid notification for protocol {service}")
    _check_payload(service, payload, raw)
    return Published(service, payload, attributes)


def _check_payload(service: str, payload: Mapping[str, Any], raw: str) -> None:
    if service != "GCM":
        if len(raw.encode()) > LARGEST_PAYLOAD or not isinstance(payload.get("aps"), dict):
            raise refuse(
                "InvalidParameter",
                f"Invalid parameter: Message Reason: Invalid notification for protocol {service}",
            )
        return
    v1 = payload.get("fcmV1Message")
    message = v1.get("message") if isinstance(v1, dict) else None
    if v1 is not None and (not isinstance(message, dict) or "token" in message):
        raise refuse("InvalidParameter", "Invalid parameter: Message Reason: Invalid fcmV1Message")


def _attributes(form: Mapping[str, str]) -> dict[str, str]:
    attributes = {}
    number = 1
    while f"{_PREFIX}{number}.Name" in form:
        name, kind, value = (form.get(f"{_PREFIX}{number}.{key}", "") for key in _KEYS)
        if not kind or not value:
            raise refuse(
                "InvalidParameter", f"Invalid parameter: MessageAttributes Reason: {name} has no value"
            )
        attributes[name] = value
        number += 1
    return attributes


def _parsed(text: str, reason: str) -> dict[str, Any]:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise refuse("InvalidParameter", f"Invalid parameter: {reason}") from None
