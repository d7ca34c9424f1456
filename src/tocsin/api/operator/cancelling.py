"""The operator's call that cancels notifications by a query."""

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.organisations import within_organisation
from tocsin.api.http.problems import INVALID_BODY, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.engine.settle.cancelling import cancel_by_query
from tocsin.wire.cancelling import CancelledByQuery, CancelRequest, cancel_faults

routes = Routes(Tag.ADMIN)


@routes(
    "POST /v1/admin/notifications/cancel",
    "Cancel what waits of the notifications that match; repeat it with `next_cursor` until that is null",
    Right.RECOVER,
    example={"filter": {"type": "spring_offer", "from": "2030-01-31T09:00:00Z"}, "dry_run": True},
    within_organisation=True,
)
async def cancel_notifications(request: ApiRequest, body: CancelRequest) -> CancelledByQuery:
    """Cancel or count, for some seconds at most."""
    return await cancel_matching(request, body)


async def cancel_matching(
    request: ApiRequest, body: CancelRequest, seconds: float | None = None
) -> CancelledByQuery:
    """Cancel or count what waits and the caller may see, for so many seconds at most.

    Raises a problem if the filter has faults.
    """
    if faults := cancel_faults(body.filter, "filter"):
        raise faults_problem(INVALID_BODY, *faults)
    wanted = msgspec.structs.replace(body, filter=within_organisation(request, body.filter))
    async with request.pool.acquire() as connection:
        return await cancel_by_query(connection, wanted, request.actor, request.now(), seconds)
