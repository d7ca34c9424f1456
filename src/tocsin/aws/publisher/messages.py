"""The messages of an envelope as SNS takes them: ids, attributes and sizes."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.wire.fisa.envelope import FisaEnvelope, encode_envelope
from tocsin.wire.fisa.ids import PLAIN_ID, hashed, message_key

LARGEST_MESSAGE = 262_144
"""Bytes of one message, and of all messages of one batch: the body and its attributes."""
BROADCAST = "broadcast"

_STRING = "String"
# Characters that XML, which SNS answers in, does not have.
_NO_XML = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")


class Group(NamedTuple):
    """One recipient of an envelope, or everybody: the group whose messages keep their order."""

    user: str | None
    name: str
    key: UUID


class Message(NamedTuple):
    """One message as SNS takes it; that to a standard topic has no group and no deduplication id."""

    body: bytes
    attributes: Mapping[str, str]
    group: str | None = None
    deduplication_id: str | None = None

    @property
    def size(self) -> int:
        """Its bytes as SNS counts them."""
        return _size(self.body, self.attributes)


def digest(text: str) -> UUID:
    """Return a digest of a text; Tocsin keeps no other trace of the ids of rows and people."""
    return UUID(bytes=hashlib.blake2b(text.encode(), digest_size=16).digest())


def groups(envelope: FisaEnvelope) -> list[Group]:
    """List the recipients of an envelope, each once; an envelope without any is for everybody."""
    if not envelope.recipients:
        return [Group(None, BROADCAST, digest(BROADCAST))]
    return [_user_group(user) for user in envelope.users]


def attributes(envelope: FisaEnvelope) -> dict[str, str]:
    """Return the attributes by which subscriptions filter."""
    given = {"event_type": envelope.event_type, "org_id": envelope.org_id, "severity": envelope.severity}
    return {name: str(value).translate(_NO_XML) for name, value in given.items() if value is not None}


def largest_size(envelope: FisaEnvelope) -> int:
    """Return the size of the largest message of an envelope."""
    longest = max(map(_written_size, envelope.users), default=0)
    return _size(_body(envelope, None), attributes(envelope)) + longest


def message(envelope: FisaEnvelope, group: Group, *, fifo: bool) -> Message:
    """Build the message for one recipient: the envelope with nobody else in it."""
    body, described = _body(envelope, group.user), attributes(envelope)
    if not fifo:
        return Message(body, described)
    return Message(body, described, group.name, message_key(envelope.event_id, group.user))


def _user_group(user: str) -> Group:
    name = f"user-{user}"
    return Group(user, name if PLAIN_ID.fullmatch(name) else f"user-{hashed(user)}", digest(name))


def _body(envelope: FisaEnvelope, user: str | None) -> bytes:
    return encode_envelope(msgspec.structs.replace(envelope, recipients=[] if user is None else [user]))


def _written_size(user: str) -> int:
    # As `encode_envelope` writes it.
    return len(msgspec.json.encode(user)) + 3 * sum(map(user.count, "\ufffe\uffff"))


def _size(body: bytes, described: Mapping[str, str]) -> int:
    return len(body) + sum(
        len(name) + len(_STRING) + len(value.encode()) for name, value in described.items()
    )
