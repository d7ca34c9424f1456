"""Segments: named lists of people, for the audience of a broadcast."""

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_BODY, NOT_FOUND, ProblemError, fault_problem, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import SegmentName
from tocsin.engine.broadcast.segments import SegmentFaultsError, Uploader
from tocsin.store.broadcasts import segments
from tocsin.store.broadcasts.segments import TooManySegmentsError
from tocsin.wire.segments import NDJSON, DeletedSegment, Segment, SegmentMember, Segments

routes = Routes(Tag.USERS)

LARGEST_UPLOAD = 1 << 30
"""How many bytes an upload has at most: a bound for the table, since it is stored as it comes."""


@routes(
    "PUT /v1/segments/{name}",
    "Store a segment from lines of user ids, in place of the one before",
    Right.CHANGE_USERS,
    body=SegmentMember,
    body_type=NDJSON,
    example={"user_id": "42"},
    max_body_bytes=LARGEST_UPLOAD,
    within_organisation=True,
)
async def put_segment(request: ApiRequest, name: str) -> Segment:
    """Store a segment while it is received; it replaces the one before when all of its lines are valid."""
    uploader = Uploader(request.pool, request.services.clock, request.holder.org_id)
    try:
        row = await uploader.upload(_checked(name), request.stream())
    except SegmentFaultsError as error:
        raise faults_problem(INVALID_BODY, *error.faults) from None
    except TooManySegmentsError as error:
        raise fault_problem("name", "too_many", str(error)) from None
    return copy_fields(Segment, row)


@routes("GET /v1/segments", "List the segments", Right.SEE_USERS, within_organisation=True)
async def list_segments(request: ApiRequest) -> Segments:
    """List the segments, those of the caller's organisation alone if it is bound to one."""
    rows = await segments.list_all(request.pool, request.holder.org_id)
    return Segments([copy_fields(Segment, row) for row in rows])


@routes(
    "DELETE /v1/segments/{name}",
    "Delete a segment",
    Right.CHANGE_USERS,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def delete_segment(request: ApiRequest, name: str) -> DeletedSegment:
    """Delete a segment; a broadcast that was accepted before goes on with its people."""
    if not await segments.delete(request.pool, _checked(name), request.holder.org_id, request.now()):
        raise ProblemError(NOT_FOUND, "There is no such segment.")
    return DeletedSegment(name)


def _checked(name: str) -> str:
    try:
        return msgspec.convert(name, SegmentName)
    except msgspec.ValidationError:
        message = (
            "must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter or digit"
        )
        raise fault_problem("name", "invalid", message) from None
