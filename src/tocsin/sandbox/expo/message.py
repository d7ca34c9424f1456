"""What Expo takes as a request, read and checked."""

import re
import zlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from tocsin.sandbox.answers import Answer
from tocsin.sandbox.expo.errors import TOO_MANY_NOTIFICATIONS, TOO_MANY_RECEIPTS, validation_error

LARGEST_PAYLOAD = 4_096
MOST_MESSAGES = 100
MOST_RECEIPTS = 1_000

_TOKEN = re.compile(
    r"Expo(?:nent)?PushToken\[[^\[\]]+\]|[a-z\d]{8}(?:-[a-z\d]{4}){3}-[a-z\d]{12}", re.IGNORECASE
)
_GZIP = 16 + zlib.MAX_WBITS
_decode = msgspec.json.Decoder().decode


class _Fields(msgspec.Struct, rename="camel"):
    """The fields of a message; others are passed over."""

    to: str | list[str]
    data: dict[str, Any] | None = None
    title: str | None = None
    subtitle: str | None = None
    body: str | None = None
    sound: str | dict[str, Any] | None = None
    ttl: Annotated[float, Meta(ge=0)] | None = None
    expiration: Annotated[float, Meta(ge=0)] | None = None
    priority: Literal["default", "normal", "high"] | None = None
    interruption_level: Literal["active", "critical", "passive", "time-sensitive"] | None = None
    badge: Annotated[int, Meta(ge=0)] | None = None
    channel_id: str | None = None
    category_id: str | None = None
    icon: str | None = None
    rich_content: dict[str, str] | None = None
    mutable_content: bool | None = None
    collapse_id: Annotated[str, Meta(max_length=64)] | None = None
    tag: str | None = None
    content_available: bool | None = field(name="_contentAvailable", default=None)


class _Question(msgspec.Struct):
    ids: list[str]


class Push(msgspec.Struct, frozen=True):
    """One message to one token."""

    token: str
    message: dict[str, Any]

    @property
    def delivery_id(self) -> str | None:
        """Give the delivery id that the message's data names, if it is one of Tocsin's."""
        named = (self.message.get("data") or {}).get("delivery_id")
        return named if isinstance(named, str) else None

    @property
    def is_too_big(self) -> bool:
        """Tell whether Apple and Google would refuse the content."""
        texts = "".join(self.message.get(name) or "" for name in ("title", "subtitle", "body"))
        size = len(texts.encode()) + len(msgspec.json.encode(self.message.get("data") or {}))
        return size > LARGEST_PAYLOAD


class Order(msgspec.Struct, frozen=True):
    """A request to send; `single` is answered with one ticket instead of a list of them."""

    pushes: Sequence[Push]
    single: bool


def is_push_token(text: str) -> bool:
    """Tell whether a text looks like a token that Expo gives out."""
    return _TOKEN.fullmatch(text) is not None


def read_order(body: bytes, encoding: str | None) -> Order | Answer:
    """Read a request to send, or say why it is none."""
    content = _content(body, encoding)
    if isinstance(content, Answer):
        return content
    messages = content if isinstance(content, list) else [content]
    try:
        checked = msgspec.convert(messages, list[_Fields])
    except msgspec.ValidationError as error:
        return validation_error(str(error))
    pushes = [
        Push(token, message)
        for fields, message in zip(checked, messages, strict=True)
        for token in ([fields.to] if isinstance(fields.to, str) else fields.to)
    ]
    if len(pushes) > MOST_MESSAGES:
        return TOO_MANY_NOTIFICATIONS
    return Order(pushes, isinstance(content, dict) and isinstance(content["to"], str))


def read_question(body: bytes, encoding: str | None) -> Sequence[str] | Answer:
    """Read the ticket ids that receipts are asked for, or say why there are none."""
    content = _content(body, encoding)
    if isinstance(content, Answer):
        return content
    try:
        ids = msgspec.convert(content, _Question).ids
    except msgspec.ValidationError as error:
        return validation_error(str(error))
    return ids if len(ids) <= MOST_RECEIPTS else TOO_MANY_RECEIPTS


def _content(body: bytes, encoding: str | None) -> Any:
    try:
        return _decode(zlib.decompress(body, _GZIP) if encoding == "gzip" else body)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return validation_error("The request body is not the JSON, plain or compressed, that it says it is.")
