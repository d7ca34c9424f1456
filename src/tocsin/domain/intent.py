"""The intent: what a producer submits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import astuple

from tocsin.domain.faults import Fault
from tocsin.domain.people.attributes import Attributes, attribute_faults
from tocsin.domain.people.locale import NO_LOCALE, normalize
from tocsin.domain.people.organisations import OrgId
from tocsin.domain.people.recipient import (
    ConditionRecipient,
    ConfigRecipient,
    EmailRecipient,
    Recipient,
    TopicRecipient,
    UserRecipient,
)
from tocsin.domain.people.topics import Condition, Topic, condition_fault

LONGEST_TTL_SECONDS = 2_419_200
LARGEST_AUDIENCE = 1_000
LONGEST_KEY = 200

# A lone surrogate cannot be stored; no JSON body holds one, but the claim of a JWT may. Characters that
# control a terminal or turn the direction of a text deceive whoever reads an id. Clients take `.` and `..`
# out of paths.
UserId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^(?!\.{1,2}\Z)[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+\Z",
    ),
]
NumericUserId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
EmailAddress = Annotated[str, Meta(min_length=3, max_length=254, pattern=r"^[^\s@\x00]+@[^\s@\x00]+\Z")]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
TypeName = Annotated[str, Meta(min_length=1, max_length=100)]
TraceText = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
# Apple receives it as an HTTP header of at most 64 bytes.
CollapseKey = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\x20-\x7e]+\Z")]
LocaleTag = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Moment = Annotated[datetime, Meta(tz=True)]
WallTime = Annotated[datetime, Meta(tz=False)]

# A part of a path, so it needs no escaping.
SegmentName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]


class Audience(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Exactly one of: users by id or attributes, bare e-mail addresses, administrators, a topic, a condition.

    A user has all the `attributes`: each equals the given value, or is a list with all the given texts. Or
    `everyone` who is in the directory or has a device; or the members of an uploaded `segment`.
    """

    users: Annotated[list[UserId | NumericUserId], Meta(min_length=1, max_length=LARGEST_AUDIENCE)] | None = (
        None
    )
    emails: Annotated[list[EmailAddress], Meta(min_length=1, max_length=LARGEST_AUDIENCE)] | None = None
    admins: bool | None = None
    topic: Topic | None = None
    condition: Condition | None = None
    attributes: Attributes | None = None
    everyone: bool | None = None
    segment: SegmentName | None = None


AUDIENCE_KINDS = Audience.__struct_fields__


class Intent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What happened and who is to be notified.

    `locale` is the language for recipients of whom no other is known. With `org_id`, every recipient must be
    a person of that organisation.
    """

    type: TypeName
    version: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    audience: Audience
    payload: dict[str, Any]
    idempotency_key: Key
    send_at: Moment | None = None
    send_at_local: WallTime | None = None
    ttl_seconds: Annotated[int, Meta(ge=1, le=LONGEST_TTL_SECONDS)] | None = None
    collapse_key: CollapseKey | None = None
    request_id: TraceText | None = None
    trace_id: TraceText | None = None
    occurred_at: Moment | None = None
    locale: LocaleTag | None = None
    org_id: OrgId | None = None


def audience_kind(audience: Audience) -> str:
    """Return which field of a valid audience lists the recipients."""
    return next(kind for kind in AUDIENCE_KINDS if getattr(audience, kind) is not None)


def is_query(audience: Audience) -> bool:
    """Return whether the people of an audience have to be looked up."""
    return audience.attributes is not None or audience.everyone is not None or audience.segment is not None


def audience_faults(audience: Audience) -> list[Fault]:
    """List what is wrong with an audience beyond the types of its fields."""
    given = astuple(audience)
    if given.count(None) != len(given) - 1:
        present = [kind for kind, value in zip(AUDIENCE_KINDS, given, strict=True) if value is not None]
        return [
            Fault(
                field="audience",
                code="one_of",
                message=f"must have exactly one of {', '.join(AUDIENCE_KINDS)}; "
                f"{' and '.join(present) or 'none'} given",
            )
        ]
    if audience.users is not None or audience.emails is not None:
        return []
    for kind in ("admins", "everyone"):
        if getattr(audience, kind) is False:
            return [Fault(field=f"audience.{kind}", code="invalid", message="can only be true")]
    if audience.condition is not None and (message := condition_fault(audience.condition)):
        return [Fault(field="audience.condition", code="invalid", message=message)]
    return [] if audience.attributes is None else _query_faults(audience.attributes)


def locale_faults(locale: str | None) -> list[Fault]:
    """List what is wrong with the language of an intent."""
    if locale is None or normalize(locale):
        return []
    return [Fault(field="locale", code="invalid", message=NO_LOCALE)]


def _query_faults(attributes: Attributes) -> list[Fault]:
    """List what is wrong with a query by attributes; one that says nothing would match everybody."""
    root = "audience.attributes"
    if not attributes:
        return [Fault(field=root, code="invalid", message="must have at least one attribute")]
    faults = [
        msgspec.structs.replace(fault, field=f"{root}.{fault.field}" if fault.field else root)
        for fault in attribute_faults(attributes)
    ]
    return faults or [
        Fault(field=f"{root}.{name}", code="invalid", message="must list at least one text")
        for name, value in attributes.items()
        if value == []
    ]


def recipients(intent: Intent, admins: Sequence[str]) -> list[Recipient]:
    """List the recipients of an intent, each once, in the given order.

    Whom a query over the directory or a segment finds is not known to the intent: it lists nobody.
    """
    audience = intent.audience
    if is_query(audience):
        return []
    if audience.users is not None:
        return [UserRecipient(user_id) for user_id in distinct_users(audience.users)]
    if audience.topic is not None:
        return [TopicRecipient(audience.topic)]
    if audience.condition is not None:
        return [ConditionRecipient(audience.condition)]
    addresses = admins if audience.emails is None else audience.emails
    if not addresses:
        return [ConfigRecipient(intent.type)]
    return [EmailRecipient(address) for address in dict.fromkeys(map(normal_address, addresses))]


def distinct_users(users: Sequence[str | int]) -> Sequence[str]:
    """List users by their ids as text, each once, in the given order."""
    return [str(users[0])] if len(users) == 1 else list(dict.fromkeys(map(str, users)))


def repeated_recipients(audience: Audience) -> int:
    """Count the entries of an audience that list somebody again."""
    if audience.users is not None:
        users = audience.users
        return 0 if len(users) == 1 else len(users) - len(distinct_users(users))
    if audience.emails is not None:
        return len(audience.emails) - len(set(map(normal_address, audience.emails)))
    return 0


def normal_address(address: str) -> str:
    """Return the address with its domain in lower case; only the domain is always case-insensitive."""
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.lower()}"
