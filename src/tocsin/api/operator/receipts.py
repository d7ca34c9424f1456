"""The operator's call about receipts."""

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.problems import INVALID_QUERY, faults_problem
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import Moment
from tocsin.domain.timing.moments import moment_faults
from tocsin.engine.inspect.receipt_rates import read_rates
from tocsin.wire.filters import FilterText
from tocsin.wire.person.receipts import ReceiptRates

routes = Routes(Tag.ADMIN)


class WhichRates(Query, frozen=True, kw_only=True):
    """The days, in UTC, on which deliveries were sent, by default the last thirty; and one type, or all."""

    type: FilterText | None = None
    from_: Moment | None = msgspec.field(name="from", default=None)
    to: Moment | None = None


@routes("GET /v1/admin/receipts", "Show delivery and open rates by type and channel", Right.SEE_ALL)
async def show_rates(request: ApiRequest, query: WhichRates) -> ReceiptRates:
    """Read what devices reported, by type."""
    times = (("from", query.from_), ("to", query.to))
    if faults := [fault for name, at in times if at is not None for fault in moment_faults(name, at)]:
        raise faults_problem(INVALID_QUERY, *faults)
    async with request.pool.acquire() as connection:
        return await read_rates(connection, request.now(), first=query.from_, last=query.to, type_=query.type)
