"""Notifications: searching them, and one of them from its acceptance to its receipts."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, get_args
from urllib.parse import urlencode

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import View
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.producer.notifications import find_notification
from tocsin.api.producer.search import SearchQuery, find_notifications
from tocsin.catalog.catalog import Catalog, UnknownTypeError
from tocsin.catalog.preview import Preview, preview
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import Channel
from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import WAITING, State
from tocsin.engine.inspect.digests import MOST_COUNTED, ShownDigest, read_digests
from tocsin.wire.filters import DeliveryFilter
from tocsin.wire.notifications import Delivery, Notification

MOST_DELIVERIES = 50
LONGEST_PAYLOAD = 20_000

page = Page("notifications", "Notifications", Right.SEE_ALL, within_organisation=True)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a timeline."""

    at: datetime | None
    title: str
    kind: str
    detail: str = ""
    code: str | None = None
    until: datetime | None = None
    count: int = 1


class Search(SearchQuery, frozen=True, kw_only=True):
    """A search; `id` is that of one notification, or of the entry of a stream that it came from."""

    id: str | None = None


@page.get()
async def search(request: ApiRequest, query: Search) -> View:
    """Show the newest notifications that match."""
    if query.id is not None:
        return await show(request, query.id.strip())
    fields = {"query": query, "states": list(State), "reasons": list(Reason), "channels": get_args(Channel)}
    try:
        found = await find_notifications(request, query)
    except ProblemError as error:
        context = {**fields, "found": None, "next": None, "fault": error.problem.detail}
        return View("notifications/index.html", context, status=error.problem.status)
    next_page = None
    if found.next_cursor is not None:
        next_page = filter_query(query, cursor=str(found.next_cursor))
    return View("notifications/index.html", {**fields, "found": found, "next": next_page, "fault": None})


@page.get("/{notification_id}")
async def show(request: ApiRequest, notification_id: str) -> View:
    """Show a notification with the timeline of each of its deliveries."""
    shown = await find_notification(request, notification_id)
    deliveries = [(delivery, list(timeline(delivery))) for delivery in shown.deliveries[:MOST_DELIVERIES]]
    catalog = request.services.explainer.rules.catalog
    async with request.pool.acquire() as connection:
        digests = await read_digests(connection, catalog, shown, request.holder.org_id)
    rendered, fault = _rendered(catalog, shown, digests)
    return View(
        "notifications/show.html",
        {
            "notification": shown,
            "deliveries": deliveries,
            "left_out": len(shown.deliveries) - len(deliveries),
            "rendered": rendered,
            "render_fault": fault,
            "digests": digests,
            "most_members": MOST_COUNTED,
            "longest_payload": LONGEST_PAYLOAD,
        },
    )


def filter_query(given: DeliveryFilter, **more: str) -> str:
    """Return a filter as the query of an address."""
    fields: dict[str, Any] = msgspec.to_builtins(given)
    return urlencode(
        {name: value for name, value in (fields | more).items() if value is not None}, doseq=True
    )


def timeline(delivery: Delivery) -> Iterator[Event]:
    """List what happened to a delivery: the decisions, failed attempts, how it ended, and its receipts."""
    yield Event(at=delivery.created_at, title="Planned", kind="info", detail=delivery.route_id)
    happened = [
        Event(
            at=step.at,
            title=step.rule,
            kind={"pass": "good", "hold": "warn"}.get(step.result, "skipped"),
            detail=step.detail,
            code=step.result,
            until=step.until,
            count=step.count,
        )
        for step in delivery.decisions
    ]
    happened += (
        Event(
            at=each.at,
            title=f"Attempt failed: {each.outcome}",
            kind="bad",
            detail=each.detail,
            code=each.code,
        )
        for each in delivery.attempts
    )
    yield from sorted(happened, key=lambda event: event.at or delivery.created_at)
    if delivery.state in WAITING:
        detail = delivery.waiting_for or (f"held by {delivery.held_by}" if delivery.held_by else "")
        yield Event(at=delivery.due_at, title="Waits to be sent", kind="info", detail=detail)
        return
    yield _ending(delivery)
    yield from (
        Event(
            at=receipt.at,
            title=receipt.event,
            kind="info" if receipt.event == "dismissed" else "good",
            detail="reported by the device",
        )
        for receipt in delivery.receipts
    )
    if delivery.state == State.DELIVERED and not delivery.receipts:
        # The moment of a provider's receipt is not kept.
        yield Event(
            at=None, title="delivered", kind="good", detail=f"confirmed by {delivery.provider}'s receipt"
        )


def _ending(delivery: Delivery) -> Event:
    """Return how the last attempt of a delivery ended, or that there was none."""
    if delivery.state in {State.SENT, State.DELIVERED}:
        answer = ": ".join(filter(None, (delivery.provider, delivery.provider_message_id)))
        return Event(at=delivery.settled_at, title=State.SENT, kind="good", detail=answer)
    return Event(
        at=delivery.settled_at,
        title=delivery.state,
        kind=delivery.state,
        detail=delivery.reason or delivery.last_error or "",
        code=delivery.last_error_code,
    )


def _rendered(
    catalog: Catalog, shown: Notification, digests: Mapping[str, ShownDigest]
) -> tuple[list[Preview], str | None]:
    """Render the message of each channel as the catalog of now has it, or return why that is not possible."""
    if shown.pruned_at is not None:
        return [], "The content was pruned."
    found = catalog.find(shown.type, shown.version)
    if found is None:
        return [], "The catalog does not have this type and version any more."
    used = {delivery.channel for delivery in shown.deliveries}
    locale = shown.locale or found.default_locale
    payloads = {channel: digest.payload for channel, digest in digests.items()}
    try:
        previews = list(preview(catalog, found, shown.payload, locale, digests=payloads))
    except (UnknownTypeError, RenderError) as error:
        return [], str(error)
    return [each for each in previews if each.channel in used or not used], None
