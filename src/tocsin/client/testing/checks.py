"""What Tocsin checks of an intent before it looks at its catalog, so that a stand-in refuses the same."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.client.intents import AUDIENCES
from tocsin.domain.faults import Fault
from tocsin.domain.people.topics import Condition, Topic, condition_fault

_TEXT = r"^[^\x00-\x1f\x7f]*\Z"
_UserId = Annotated[str, Meta(min_length=1, max_length=128, pattern=_TEXT)]
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Email = Annotated[str, Meta(min_length=3, max_length=254, pattern=r"^[^\s@\x00]+@[^\s@\x00]+\Z")]
_Trace = Annotated[str, Meta(max_length=200, pattern=_TEXT)]
_Moment = Annotated[datetime, Meta(tz=True)]


class _Audience(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: Annotated[list[_UserId | _Number], Meta(min_length=1, max_length=1_000)] | None = None
    emails: Annotated[list[_Email], Meta(min_length=1, max_length=1_000)] | None = None
    admins: bool | None = None
    topic: Topic | None = None
    condition: Condition | None = None


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Annotated[str, Meta(min_length=1, max_length=100)]
    version: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    audience: _Audience
    payload: dict[str, Any]
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200, pattern=_TEXT)]
    send_at: _Moment | None = None
    send_at_local: Annotated[datetime, Meta(tz=False)] | None = None
    ttl_seconds: Annotated[int, Meta(ge=1, le=2_419_200)] | None = None
    collapse_key: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[\x20-\x7e]+\Z")] | None = None
    request_id: _Trace | None = None
    trace_id: _Trace | None = None
    occurred_at: _Moment | None = None


def intent_faults(raw: bytes) -> list[Fault]:
    """Find what is wrong with an intent whatever the catalog says; of its shape, the first fault."""
    try:
        shape = msgspec.json.decode(raw, type=_Shape)
    except msgspec.ValidationError as error:
        said, _, where = str(error).replace("`", "").partition(" - at ")
        return [Fault(field=where.removeprefix("$.") or "$", code="invalid", message=said)]
    named = [name for name in AUDIENCES if getattr(shape.audience, name) is not None]
    if len(named) != 1:
        message = f"must name exactly one of {', '.join(AUDIENCES)}; {' and '.join(named) or 'none'} given"
        return [Fault(field="audience", code="one_of", message=message)]
    if shape.audience.admins is False:
        return [Fault(field="audience.admins", code="invalid", message="can only be true")]
    if shape.audience.condition and (wrong := condition_fault(shape.audience.condition)):
        return [Fault(field="audience.condition", code="invalid", message=wrong)]
    if shape.send_at is not None and shape.send_at_local is not None:
        return [Fault(field="send_at_local", code="one_of", message="cannot be given with send_at")]
    return []
