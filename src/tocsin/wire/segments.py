"""Segments as the API shows them."""

from datetime import datetime

import msgspec

from tocsin.domain.intent import NumericUserId, UserId

NDJSON = "application/x-ndjson"
"""The media type of an upload: one JSON object a line."""


class SegmentMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of an upload: a person by user id."""

    user_id: UserId | NumericUserId


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A named list of people, with how many there are; `org_id` is the organisation that it belongs to."""

    name: str
    members: int
    updated_at: datetime
    org_id: str | None = None


class Segments(msgspec.Struct, frozen=True):
    """The segments that there are, by name."""

    items: list[Segment]


class DeletedSegment(msgspec.Struct, frozen=True):
    """The segment that was deleted."""

    name: str
