"""Client events as entries of the gateway's stream."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from tocsin.gateway.events import ClientEvent
from tocsin.ingress.redis_streams.reader import Entry
from tocsin.wire.streams.client_events import JSON_CONTENT, OPTIONAL, REQUIRED, compact_object
from tocsin.wire.streams.entry_ids import EntryId
from tocsin.wire.streams.intents import LARGEST_ENTRY

_encoder = msgspec.json.Encoder()


class MalformedEntryError(Exception):
    """An entry that cannot be sent to anybody; the message is a code without the content."""


class EventBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event as clients get it; `id` is the id of its entry, `payload` is a JSON object or base64."""

    id: str
    event_id: str
    event_type: str
    payload: bytes | msgspec.Raw
    request_id: str | None = None
    trace_id: str | None = None


class StreamEvent(ClientEvent):
    """An event of the stream for the sessions of a user, or for one of them."""

    def __init__(
        self, entry_id: EntryId, size: int, texts: Mapping[str, str], payload: bytes | msgspec.Raw
    ) -> None:
        super().__init__(entry_id, texts["user_id"], size, texts.get("device_session_id"))
        self._texts = texts
        self._payload = payload

    @cached_property
    def body(self) -> bytes:
        """The event as JSON, encoded once for all sessions that get it."""
        texts = self._texts
        body = EventBody(
            id=str(self.id),
            event_id=texts["event_id"],
            event_type=texts["event_type"],
            payload=self._payload,
            request_id=texts.get("request_id"),
            trace_id=texts.get("trace_id"),
        )
        return _encoder.encode(body)


def read_event(entry: Entry) -> StreamEvent:
    """Build the event of an entry; raise MalformedEntryError if it is malformed or too large."""
    size = sum(len(name) + len(value) for name, value in entry.fields.items())
    if size > LARGEST_ENTRY:
        raise MalformedEntryError("too_large")
    given = {name: value for name in (*REQUIRED, *OPTIONAL) if (value := entry.fields.get(name.encode()))}
    payload = entry.fields.get(b"payload_bytes")
    given.pop("payload_bytes", None)
    if payload is None or not all(name in given for name in REQUIRED if name != "payload_bytes"):
        raise MalformedEntryError("field_missing")
    try:
        texts = {name: value.decode() for name, value in given.items()}
    except UnicodeDecodeError:
        raise MalformedEntryError("not_text") from None
    return StreamEvent(EntryId.parse(entry.id), size, texts, _shown(payload, texts.get("content_type", "")))


def _shown(payload: bytes, content_type: str) -> bytes | msgspec.Raw:
    """Return a payload as clients get it: JSON in one line, which Server-Sent Events need, or bytes."""
    if content_type.partition(";")[0].strip().lower() != JSON_CONTENT:
        return payload
    try:
        return msgspec.Raw(compact_object(payload))
    except msgspec.ValidationError:
        raise MalformedEntryError("not_json") from None
