"""The settings of queues: of each that intents come from, and of anything else that reads one."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.domain.faults import Fault
from tocsin.domain.people.organisations import OrgId
from tocsin.ingress.names import name_faults
from tocsin.ingress.outbox.settings import Envelope

FIFO = ".fifo"
NO_URL = "must be set: the URL of the queue, https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"
WRONG_URL = "must be the URL of a queue, such as https://sqs.eu-west-1.amazonaws.com/123456789012/shop"

_PATH = re.compile(r"/(?:[!-~]+/)*[A-Za-z0-9_-]{1,80}(?:\.fifo)?")

Receivers = Annotated[int, Meta(ge=1, le=100)]
VisibilitySeconds = Annotated[int, Meta(ge=10, le=43_200)]


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One queue of intents: its URL, what its messages are, and how it is read.

    A message that is refused stays in the queue for its redrive policy, or is deleted. With `org_id`, all of
    its intents are for people of that organisation.
    """

    url: str = ""
    envelope: Envelope = "intent"
    types: dict[str, str] = {}
    org_id: OrgId | None = None
    refused: Literal["redrive", "delete"] = "redrive"
    receivers: Receivers = 4
    visibility_seconds: VisibilitySeconds = 60


def queue_settings_faults(queues: Mapping[str, QueueSettings]) -> Iterator[Fault]:
    """Check names and URLs of the queues."""
    holders: dict[str, str] = {}
    yield from name_faults("queues", queues)
    for name, settings in queues.items():
        where = f"queues.{name}"
        if message := url_fault(settings.url) or "":
            code = "invalid" if settings.url else "missing"
            yield Fault(field=f"{where}.url", code=code, message=message)
        if settings.types and settings.envelope == "intent":
            message = 'is for envelope = "fisa"; an intent names its type itself'
            yield Fault(field=f"{where}.types", code="contradiction", message=message)
        if settings.url and (holder := holders.setdefault(settings.url, name)) != name:
            message = f"is that of queues.{holder} too; each of them would get some of its messages"
            yield Fault(field=f"{where}.url", code="contradiction", message=message)


def url_fault(url: str) -> str | None:
    """Return what is wrong with the URL of a queue."""
    if not url:
        return NO_URL
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return WRONG_URL
    is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in {"http", "https"} or not has_host or not is_plain:
        return WRONG_URL
    return None if _PATH.fullmatch(parts.path) else WRONG_URL
