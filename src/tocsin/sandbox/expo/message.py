"""Expo's check of a request."""

import re
import zlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from tocsin.sandbox.expo.errors import request_error
from tocsin.sandbox.responses import RefusedRequestError
from tocsin.sandbox.stand_in import ReceivedRequest

LARGEST_PAYLOAD = 4_096
MOST_MESSAGES = 100
MOST_RECEIPTS = 1_000

_TOKEN = re.compile(
    r"Expo(?:nent)?PushToken\[[^\[\]]+\]|[a-z\d]{8}(?:-[a-z\d]{4}){3}-[a-z\d]{12}", re.IGNORECASE
)
_GZIP = 16 + zlib.MAX_WBITS
T = TypeVar("T")
_decode = msgspec.json.Decoder().decode


class _Fields(msgspec.Struct, rename="camel"):
    """The fields of a message; others are ignored."""

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


class _ReceiptsRequest(msgspec.Struct):
    ids: list[str]


class ExpoMessage(msgspec.Struct, frozen=True):
    """One message to one token."""

    token: str
    content: dict[str, Any]

    @property
    def is_too_big(self) -> bool:
        """Whether Apple and Google would refuse the content."""
        texts = "".join(self.content.get(name) or "" for name in ("title", "subtitle", "body"))
        size = len(texts.encode()) + len(msgspec.json.encode(self.content.get("data") or {}))
        return size > LARGEST_PAYLOAD


class SendRequest(msgspec.Struct, frozen=True):
    """A request to send; `single` is answered with one ticket instead of a list of them."""

    messages: Sequence[ExpoMessage]
    single: bool


def is_push_token(text: str) -> bool:
    """Return whether a text looks like a token that Expo issues."""
    return _TOKEN.fullmatch(text) is not None


def parse_send(request: ReceivedRequest) -> SendRequest:
    """Parse a request to send."""
    content = _decoded(request)
    contents = content if isinstance(content, list) else [content]
    messages = [
        ExpoMessage(token, raw)
        for fields, raw in zip(_converted(contents, list[_Fields]), contents, strict=True)
        for token in ([fields.to] if isinstance(fields.to, str) else fields.to)
    ]
    if len(messages) > MOST_MESSAGES:
        raise RefusedRequestError(request_error("PUSH_TOO_MANY_NOTIFICATIONS"))
    return SendRequest(messages, isinstance(content, dict) and isinstance(content["to"], str))


def parse_receipt_ids(request: ReceivedRequest) -> Sequence[str]:
    """Parse the ticket ids of a request for receipts."""
    ids = _converted(_decoded(request), _ReceiptsRequest).ids
    if len(ids) > MOST_RECEIPTS:
        raise RefusedRequestError(request_error("PUSH_TOO_MANY_RECEIPTS"))
    return ids


def _decoded(request: ReceivedRequest) -> Any:
    body = request.body
    try:
        gzipped = request.header("content-encoding") == "gzip"
        return _decode(zlib.decompress(body, _GZIP) if gzipped else body)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = "The request body is not the JSON, plain or compressed, that it says it is."
        raise RefusedRequestError(request_error("VALIDATION_ERROR", text)) from None


def _converted(content: Any, type_: type[T]) -> T:
    try:
        return msgspec.convert(content, type_)
    except msgspec.ValidationError as error:
        raise RefusedRequestError(request_error("VALIDATION_ERROR", str(error))) from None
