"""The form of a PublishBatch call, written here.

botocore checks each field by its model and writes the form twice, to sign it and to send it: that was
most of what a message cost. So it gets the finished form, and does the rest: endpoint, credentials,
signature, connections, answers.
"""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from tocsin.aws.publisher.messages import Message

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_QUOTED = [chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]

_form: ContextVar[bytes | None] = ContextVar("form", default=None)


def publish_form(topic_arn: str, messages: Sequence[Message]) -> bytes:
    """Write the form of a call that publishes messages; the id of each is its place."""
    fields = [f"Action=PublishBatch&Version=2010-03-31&TopicArn={_short(topic_arn)}"]
    for place, message in enumerate(messages):
        entry = f"&PublishBatchRequestEntries.member.{place + 1}."
        fields += (f"{entry}{name}={value}" for name, value in _fields(place, message))
    return "".join(fields).encode("ascii")


def _fields(place: int, message: Message) -> Iterator[tuple[str, str]]:
    yield "Id", str(place)
    yield "Message", _quoted(message.body)
    for number, (name, value) in enumerate(message.attributes.items(), 1):
        attribute = f"MessageAttributes.entry.{number}"
        yield f"{attribute}.Name", name
        yield f"{attribute}.Value.DataType", "String"
        yield f"{attribute}.Value.StringValue", _short(value)
    if message.group is not None and message.deduplication_id is not None:
        yield "MessageGroupId", _quoted(message.group.encode())
        yield "MessageDeduplicationId", _quoted(message.deduplication_id.encode())


def _quoted(text: bytes) -> str:
    return text.decode("latin-1").translate(_QUOTED)


@lru_cache(1_024)
def _short(text: str) -> str:
    """Quote a text that many messages have."""
    return _quoted(text.encode())


def use_form(client: Any) -> None:
    """Have a client send the form that `set_form` set instead of the one that it writes itself."""
    client.meta.events.register("before-call.sns.PublishBatch", _replace_body, unique_id="tocsin-form")


def set_form(form: bytes) -> None:
    """Set the form of the next call within this task."""
    _form.set(form)


def _replace_body(params: dict[str, Any], **_: object) -> None:
    if (form := _form.get()) is not None:
        params["body"] = form
