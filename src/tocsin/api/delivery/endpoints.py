"""The endpoints of people at SNS, for functions that deliver outside of Tocsin."""

from functools import partial

import structlog

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import INVALID_BODY, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PERSON_BODY_BYTES, Routes, Tag
from tocsin.domain.timing.moments import moment_faults
from tocsin.store.people.endpoints import sns as sns_endpoints
from tocsin.store.people.endpoints.sns import EndpointRow
from tocsin.store.secrets.sealing import DataKeys, SealedError
from tocsin.wire.person.endpoints import (
    FIND_PATH,
    LARGEST_FIND,
    RETIRE_PATH,
    FindEndpoints,
    FoundEndpoints,
    RetiredEndpoint,
    RetireEndpoint,
)

_log = structlog.stdlib.get_logger(__name__)

routes = Routes(Tag.DELIVERY)


@routes(
    f"POST {FIND_PATH}",
    f"Find the endpoints of up to {LARGEST_FIND} people of an organisation who have not opted out of a type",
    Right.DELIVER,
    example={"user_ids": ["42"], "type": "comment_added"},
    max_body_bytes=PERSON_BODY_BYTES,
)
async def find_endpoints(request: ApiRequest, body: FindEndpoints) -> FoundEndpoints:
    """List the active endpoints of each person, without those that get no pushes."""
    type_ = request.catalog.find(body.type) if request.catalog and body.type else None
    # Preferences do not count for a critical type.
    category = type_.category if type_ and not type_.policies.critical else None
    read_token = partial(_read_token, request.services.data_keys)
    org_id = body.org_id if request.services.auth.org_scoping else None
    async with request.pool.acquire() as connection:
        people = await sns_endpoints.find(
            connection, [*map(str, body.user_ids)], category, read_token, org_id=org_id
        )
    return FoundEndpoints(people)


@routes(
    f"POST {RETIRE_PATH}",
    "Retire an endpoint that SNS no longer delivers to; repeating it changes nothing",
    Right.DELIVER,
    example={
        "endpoint_arn": "arn:aws:sns:ap-southeast-1:123456789012:endpoint/GCM/fisa-android/…",
        "code": "EndpointDisabled",
    },
    max_body_bytes=PERSON_BODY_BYTES,
)
async def retire_endpoint(request: ApiRequest, body: RetireEndpoint) -> RetiredEndpoint:
    """Retire the device of an endpoint."""
    if body.last_seen_at and (faults := moment_faults("last_seen_at", body.last_seen_at)):
        raise faults_problem(INVALID_BODY, *faults)
    device_id = await sns_endpoints.retire(
        request.pool, body.endpoint_arn, body.code, request.now(), last_seen_at=body.last_seen_at
    )
    if device_id is not None:
        _log.info("endpoint retired", device_id=str(device_id), code=body.code)
    return RetiredEndpoint(device_id is not None)


def _read_token(keys: DataKeys, row: EndpointRow) -> str | None:
    try:
        return keys.open(row.token, row.device_id, "token")
    except SealedError as error:
        # One endpoint is no reason to reach none of the others.
        _log.error("endpoint unreadable", device_id=str(row.device_id), error=str(error), alarm=True)
        return None
