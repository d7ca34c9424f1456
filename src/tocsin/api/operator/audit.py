"""The operator's call that lists the audit."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.bodies import AuditPage, audit_entry
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_QUERY, faults_problem
from tocsin.api.http.queries import Page, next_cursor
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Routes, Tag
from tocsin.domain.intent import Moment
from tocsin.domain.timing.moments import moment_faults
from tocsin.store import audit
from tocsin.store.audit import AuditFilter

Text = Annotated[str, Meta(min_length=1, max_length=700, pattern=r"^[^\x00\ud800-\udfff]+\Z")]

routes = Routes(Tag.ADMIN)


class AuditQuery(Page, frozen=True, kw_only=True):
    """A page of the audit, filtered; `from` is included, `to` is not."""

    action: Text | None = None
    actor: Text | None = None
    subject: Text | None = None
    since: Moment | None = msgspec.field(default=None, name="from")
    until: Moment | None = msgspec.field(default=None, name="to")


@routes("GET /v1/admin/audit", "List who did what, newest first", Right.SEE_AUDIT)
async def list_audit(request: ApiRequest, query: AuditQuery) -> AuditPage:
    """List the actions of operators, changes of toggles among them."""
    return await find_actions(request, query)


async def find_actions(request: ApiRequest, query: AuditQuery) -> AuditPage:
    """List recorded actions; raise a problem if the query has faults."""
    times = (("from", query.since), ("to", query.until))
    if faults := [fault for name, at in times if at is not None for fault in moment_faults(name, at)]:
        raise faults_problem(INVALID_QUERY, *faults)
    rows = await audit.page(
        request.pool, copy_fields(AuditFilter, query), before=query.cursor, limit=query.limit
    )
    return AuditPage([audit_entry(row) for row in rows], next_cursor(rows, query.limit, lambda row: row.id))
