"""What a device shows of a message, whichever provider brought it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tocsin.sandbox.phones import Received

DeviceKind = Literal["phone", "browser", "mailbox", "endpoint", "topic"]

_KINDS: Mapping[str, DeviceKind] = {"webpush": "browser", "smtp": "mailbox", "webhook": "endpoint"}
_MOST_CHARACTERS = 2_000


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
    """Tell what kind of device a message reached."""
    if received.target_kind in {"topic", "condition"}:
        return "topic"
    return _KINDS.get(received.provider, "phone")


def appearance(received: Received) -> Appearance:
    """Read a message as its device does."""
    message = received.message
    match received.provider:
        case "apns":
            return _apple(message)
        case "expo":
            return _expo(message)
        case "webpush":
            return _browser(message.get("content"))
        case "smtp":
            return _mail(message)
        case "webhook":
            return _webhook(message)
        case _:
            return _google(message)


def _google(message: dict[str, Any]) -> Appearance:
    """Read what Android shows: its own block comes before the one for all platforms."""

    def shown(name: str) -> Any:
        return _at(message, "android", "notification", name) or _at(message, "notification", name)

    return Appearance(
        title=_text(shown("title")),
        body=_text(shown("body")),
        image=_text(shown("image")),
        icon=_text(shown("icon")),
        link=_text(_at(message, "data", "deep_link") or _at(message, "webpush", "fcm_options", "link")),
        badge=_number(_at(message, "android", "notification", "notification_count")),
        silent="notification" not in message,
    )


def _apple(message: dict[str, Any]) -> Appearance:
    alert = _at(message, "aps", "alert")
    words = {"body": alert} if isinstance(alert, str) else alert
    return Appearance(
        title=_text(_at(words, "title")),
        body="\n".join(filter(None, (_text(_at(words, name)) for name in ("subtitle", "body")))),
        image=_text(message.get("image")),
        link=_text(message.get("deep_link")),
        badge=_number(_at(message, "aps", "badge")),
        silent=not alert,
    )


def _expo(message: dict[str, Any]) -> Appearance:
    title, body = _text(message.get("title")), _text(message.get("body"))
    return Appearance(
        title=title,
        body=body,
        image=_text(_at(message, "richContent", "image")),
        icon=_text(message.get("icon")),
        link=_text(_at(message, "data", "url")),
        badge=_number(message.get("badge")),
        silent=not (title or body),
    )


def _browser(content: Any) -> Appearance:
    if not isinstance(content, dict):
        return Appearance(body=_text(content), silent=not content)
    title, body = _text(content.get("title")), _text(content.get("body"))
    return Appearance(
        title=title,
        body=body,
        image=_text(content.get("image")),
        icon=_text(content.get("icon")),
        link=_text(content.get("url")),
        badge=_number(content.get("badge")),
        silent=content.get("silent") is True or not (title or body),
    )


def _mail(message: dict[str, Any]) -> Appearance:
    headers = message.get("headers")
    by_name = {name.lower(): value for name, value in headers.items()} if isinstance(headers, dict) else {}
    return Appearance(
        title=_text(message.get("subject")),
        body=_text(message.get("text")),
        sender=_text(by_name.get("from")),
        html=bool(message.get("html")),
    )


def _webhook(message: dict[str, Any]) -> Appearance:
    event = message.get("event")
    return Appearance(
        title=_text(_at(event, "type")),
        body=_text(msgspec.json.format(msgspec.json.encode(event), indent=2).decode()),
    )


def _at(value: Any, *path: str) -> Any:
    """Follow names into foreign JSON; nothing where it has another shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}…"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
