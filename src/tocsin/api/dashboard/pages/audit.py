"""The audit: who did what to which subject."""

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.paging import next_page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.audit import AuditQuery, find_actions

page = Page("audit", "Audit", Right.SEE_AUDIT)


@page.get()
async def list_actions(request: ApiRequest, query: AuditQuery) -> View:
    """Show the newest actions that match."""
    found = await find_actions(request, query)
    return View(
        "audit/index.html", {"query": query, "entries": found.entries, "next": next_page(query, found.next)}
    )
