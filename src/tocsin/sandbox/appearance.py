"""What a device shows of a message, for every provider."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tocsin.sandbox.phones import DEVICE_TARGETS, Received

DeviceKind = Literal["phone", "browser", "mailbox", "endpoint", "topic"]

_DEVICES: Mapping[str, DeviceKind] = {"webpush": "browser", "smtp": "mailbox", "webhook": "endpoint"}
_MOST_CHARACTERS = 2_000

_PATHS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "fcm": {
        "title": ("android.notification.title", "notification.title"),
        "body": ("android.notification.body", "notification.body"),
        "image": ("android.notification.image", "notification.image"),
        "icon": ("android.notification.icon", "notification.icon"),
        "link": ("data.deep_link", "webpush.fcm_options.link"),
        "badge": ("android.notification.notification_count",),
    },
    "apns": {
        "title": ("aps.alert.title",),
        "body": ("aps.alert.body", "aps.alert"),
        "image": ("image",),
        "link": ("deep_link",),
        "badge": ("aps.badge",),
    },
    "expo": {
        "title": ("title",),
        "body": ("body",),
        "image": ("richContent.image",),
        "icon": ("icon",),
        "link": ("data.url",),
        "badge": ("badge",),
    },
    "webpush": {
        "title": ("content.title",),
        "body": ("content.body", "content"),
        "image": ("content.image",),
        "icon": ("content.icon",),
        "link": ("content.url",),
        "badge": ("content.badge",),
    },
    "sns": {
        "title": ("payload.fcmV1Message.message.notification.title", "payload.aps.alert.title"),
        "body": ("payload.fcmV1Message.message.notification.body", "payload.aps.alert.body"),
        "image": ("payload.fcmV1Message.message.android.notification.image", "payload.image"),
        "icon": ("payload.fcmV1Message.message.android.notification.icon",),
        "link": (
            "payload.fcmV1Message.message.data.deep_link",
            "payload.deep_link",
            "payload.custom.deep_link",
        ),
        "badge": ("payload.aps.badge",),
    },
    "smtp": {"title": ("subject",), "body": ("text",)},
    "webhook": {"title": ("event.type",)},
}
"""Where each part is found in a message; the first path that leads to a value counts."""


class Appearance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a message that a person sees; a silent one wakes the app and shows nothing."""

    title: str = ""
    body: str = ""
    sender: str = ""
    image: str = ""
    icon: str = ""
    link: str = ""
    badge: int | None = None
    silent: bool = False
    html: bool = False


def device_kind(received: Received) -> DeviceKind:
    """Return what a message reached."""
    if received.target_kind not in DEVICE_TARGETS:
        return "topic"
    return _DEVICES.get(received.provider, "phone")


def appearance(received: Received) -> Appearance:
    """Return what the device shows of a message."""
    provider = received.provider if received.provider in _PATHS else "fcm"
    message = received.message
    parts: dict[str, Any] = {}
    for name, paths in _PATHS[provider].items():
        found = [_at(message, path) for path in paths]
        parts[name] = _number(found[0]) if name == "badge" else next(filter(None, map(_text, found)), "")
    shows_text = bool(parts["title"] or parts.get("body"))
    match provider:
        case "fcm":
            parts["silent"] = "notification" not in message
        case "apns":
            parts["silent"] = not _at(message, "aps.alert")
            subtitle = _text(_at(message, "aps.alert.subtitle"))
            parts["body"] = "\n".join(filter(None, (subtitle, parts["body"])))
        case "expo" | "sns" | "webpush":
            parts["silent"] = not shows_text or _at(message, "content.silent") is True
        case "smtp":
            headers = message.get("headers")
            names = {name.lower(): name for name in headers} if isinstance(headers, dict) else {}
            parts["sender"] = _text(_at(headers, names.get("from", "")))
            parts["html"] = bool(message.get("html"))
        case "webhook":
            event = msgspec.json.encode(message.get("event"))
            parts["body"] = _text(msgspec.json.format(event, indent=2).decode())
    return Appearance(**parts)


def _at(value: Any, path: str) -> Any:
    """Return the value at a dotted path of any JSON, None where the path does not exist."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
