"""People: how one is reached, what they got and did not get, and what an operator can do for them."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import HEADERS, Redirect, View
from tocsin.api.http.problems import INVALID_BODY, fault_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.erasure import erase_person, export_person
from tocsin.api.operator.people import find_person
from tocsin.api.producer.intents import read_intent
from tocsin.api.producer.notifications import accept_intent
from tocsin.catalog.preview import example_payload
from tocsin.domain.ids import uuid7

NEWEST = 20
LARGEST_PAYLOAD = 65_536

page = Page("people", "People", Right.SEE_USERS, within_organisation=True)


class PeopleQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The user id to look up."""

    user: Annotated[str, Meta(max_length=200)] | None = None


class PersonQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The type whose example fills the form of a test."""

    test: Annotated[str, Meta(max_length=200)] | None = None


class TestForm(msgspec.Struct, frozen=True, kw_only=True):
    """A notification for one person."""

    type: Annotated[str, Meta(max_length=200)]
    payload: Annotated[str, Meta(max_length=LARGEST_PAYLOAD)] = "{}"


class EraseForm(msgspec.Struct, frozen=True, kw_only=True):
    """The user id once more, so that nobody is erased by a slip."""

    confirm: Annotated[str, Meta(max_length=200)] = ""


@page.get()
async def look_up(_: ApiRequest, query: PeopleQuery) -> View | Redirect:
    """Show the form that leads to a person, or that person."""
    if query.user is None:
        return View("people/index.html")
    return Redirect(_path(query.user.strip()))


@page.get("/{user_id}")
async def show(request: ApiRequest, user_id: str, query: PersonQuery) -> View:
    """Show everything about a person."""
    person, holder = await find_person(request, user_id, NEWEST), request.holder
    return View(
        "people/show.html",
        {
            "person": person,
            "address": _path(person.user_id),
            "test": _test(request, query.test) if holder.may(Right.ACCEPT) else None,
            "may_erase": holder.may(Right.ERASE_USERS),
        },
    )


@page.post("/{user_id}/test", Right.ACCEPT)
async def send_test(request: ApiRequest, user_id: str, form: TestForm) -> Redirect:
    """Hand in a notification for one person, as a producer does."""
    person = await find_person(request, user_id, 1)
    try:
        payload = msgspec.json.decode(form.payload)
    except (msgspec.DecodeError, RecursionError):
        raise fault_problem("payload", "invalid", "is not JSON", INVALID_BODY) from None
    intent = {
        "type": form.type,
        "audience": {"users": [person.user_id]},
        "payload": payload,
        "idempotency_key": f"dashboard-test-{uuid7()}",
    }
    taken = await accept_intent(request, read_intent(msgspec.json.encode(intent)))
    return Redirect(f"/dashboard/notifications/{taken.notification_id}", notice="The test was accepted.")


@page.post("/{user_id}/erase", Right.ERASE_USERS)
async def erase(request: ApiRequest, user_id: str, form: EraseForm) -> Redirect:
    """Erase a person."""
    if form.confirm != user_id:
        raise fault_problem("confirm", "differs", "must be the user id of the person to erase", INVALID_BODY)
    erased = await erase_person(request, user_id)
    ending = "" if erased.state == "finished" else " A worker finishes it within a minute."
    notice = (
        f"Erased: {erased.devices} devices, {erased.payloads} payloads; {erased.cancelled} cancelled.{ending}"
    )
    return Redirect(page.path, notice=notice)


@page.get("/{user_id}/export", Right.ERASE_USERS)
async def export(request: ApiRequest, user_id: str) -> ASGIResponse:
    """Return everything that is stored about a person as one JSON document."""
    attachment = {"content-disposition": 'attachment; filename="person.json"'}
    return ASGIStreamingResponse(
        iterator=await export_person(request, user_id),
        media_type="application/json",
        headers={**HEADERS, **attachment},
    )


def _path(user_id: str) -> str:
    return f"{page.path}/{quote(user_id, safe='')}"


def _test(request: ApiRequest, name: str | None) -> dict[str, Any]:
    """Return the types that can be sent to a user, and the example payload of one of them."""
    catalog = request.services.explainer.rules.catalog
    chosen = catalog.find(name) if name else None
    chosen = chosen or next(iter(catalog.types.values()), None)
    return {
        "types": sorted(catalog.types),
        "chosen": chosen.name if chosen else None,
        "payload": example_payload(catalog, chosen) if chosen else {},
    }
