"""Suppressed addresses, which are sent no mail: listing, adding and removing them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.paging import next_page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.suppressions import (
    SuppressAddress,
    SuppressionsQuery,
    add_suppression,
    find_suppressions,
    lift_suppression,
)

LONGEST_ADDRESS = 300

page = Page("suppressions", "Suppressions", Right.SEE_SUPPRESSIONS)

Address = Annotated[str, Meta(max_length=LONGEST_ADDRESS)]


class SuppressForm(SuppressAddress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address that is to get no mail, and why."""

    address: Address


class RemoveForm(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is to get mail again."""

    address: Address


@page.get()
async def list_suppressions(request: ApiRequest, query: SuppressionsQuery) -> View:
    """Show suppressed addresses, newest first."""
    return await _list(request, query)


@page.post("", Right.CHANGE_SUPPRESSIONS)
async def suppress(request: ApiRequest, form: SuppressForm) -> View | Redirect:
    """Suppress an address."""
    try:
        added = await add_suppression(request, form.address.strip(), form.reason)
    except ProblemError as error:
        return await _list(request, SuppressionsQuery(), form, error)
    return Redirect(page.path, notice=f"{added.address} is sent no mail from now on.")


@page.post("/remove", Right.CHANGE_SUPPRESSIONS)
async def remove(request: ApiRequest, form: RemoveForm) -> Redirect:
    """Remove a suppression."""
    removed = await lift_suppression(request, form.address)
    return Redirect(page.path, notice=f"{removed.address} is sent mail again.")


async def _list(
    request: ApiRequest,
    query: SuppressionsQuery,
    form: SuppressForm | None = None,
    error: ProblemError | None = None,
) -> View:
    found = await find_suppressions(request, query)
    context = {
        "suppressions": found.suppressions,
        "next": next_page(query, found.next),
        "may_change": request.holder.may(Right.CHANGE_SUPPRESSIONS),
        "form": form,
        "fault": error.problem.detail if error else None,
    }
    return View("suppressions/index.html", context, status=error.problem.status if error else 200)
