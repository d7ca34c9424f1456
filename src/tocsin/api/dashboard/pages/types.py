"""Types: the catalog, its toggles, previews of its templates, and explaining an intent."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.paging import next_page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.problems import INVALID_INTENT, NOT_FOUND, ProblemError, fault_problem, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.catalog import find_catalogs
from tocsin.api.operator.toggles import HistoryQuery, SwitchToggle, change_toggle, find_changes, find_toggles
from tocsin.api.producer.decisions import explain_intent
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.preview import Preview, example_payload, preview
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import CHANNELS, NotificationType
from tocsin.domain.toggles import Note, toggles_of
from tocsin.engine.inspect.receipt_rates import read_rates
from tocsin.engine.toggles.held import SwitchedToggle, ToggleState
from tocsin.store import processes
from tocsin.wire.notifications import Explanation
from tocsin.wire.person.receipts import Rates

LARGEST_PAYLOAD = 65_536

page = Page("types", "Types", Right.SEE_TOGGLES)


class ToggleForm(SwitchToggle, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A toggle to switch; who does it here has to give a reason."""

    name: Annotated[str, Meta(max_length=300)]
    reason: Note
    back: Annotated[str, Meta(max_length=200)] | None = None


class PreviewForm(msgspec.Struct, frozen=True, kw_only=True):
    """A payload to render every text with."""

    payload: Annotated[str, Meta(max_length=LARGEST_PAYLOAD)]


class ExplainForm(PreviewForm, frozen=True, kw_only=True):
    """An intent for one recipient, and the moment to explain it for, in UTC."""

    kind: Literal["users", "emails"] = "users"
    recipient: Annotated[str, Meta(max_length=300)]
    at: Annotated[str, Meta(max_length=40)] | None = None


class TypeToggleState(msgspec.Struct, frozen=True):
    """A toggle that a type goes by, and its state if it was ever switched."""

    name: str
    state: ToggleState | None

    @property
    def is_off(self) -> bool:
        """Whether it holds what would be sent."""
        return self.state is not None and not self.state.enabled


class TypeSummary(msgspec.Struct, frozen=True):
    """A type of the catalog with the toggles of it that are off."""

    type: NotificationType
    locales: tuple[str, ...]
    off: tuple[str, ...]


@page.get()
async def list_types(request: ApiRequest) -> View:
    """Show the catalog and every toggle that was ever switched."""
    catalog, toggles = _catalog(request), await find_toggles(request)
    off = frozenset(toggle.name for toggle in toggles if not toggle.enabled)
    return View(
        "types/index.html",
        {
            "types": [_summary(catalog, each, off) for _, each in sorted(catalog.types.items())],
            "toggles": toggles,
            "channels": CHANNELS,
            "rates": await _rates(request),
            "catalogs": await find_catalogs(request),
            "fingerprint": catalog.fingerprint,
            "may_change": request.holder.may(Right.CHANGE_TOGGLES),
        },
    )


@page.post("/toggles", Right.CHANGE_TOGGLES)
async def switch_toggle(request: ApiRequest, form: ToggleForm) -> Redirect:
    """Switch a toggle, with the reason."""
    switched = await change_toggle(request, form.name, copy_fields(SwitchToggle, form))
    known = form.back is not None and _catalog(request).find(form.back) is not None
    return Redirect(_path(form.back) if known and form.back else page.path, notice=_notice(switched))


@page.get("/toggles/{name}")
async def show_history(request: ApiRequest, name: str, query: HistoryQuery) -> View:
    """Show who switched a toggle, when and why."""
    found = await find_changes(request, name, query)
    context = {"name": name, "changes": found.changes, "next": next_page(query, found.next)}
    return View("types/history.html", context)


@page.post("/reload", Right.CHANGE_TOGGLES)
async def reload_catalog(request: ApiRequest) -> Redirect:
    """Ask every process to read its catalog again."""
    asked_at = await processes.ask_reload(request.pool)
    notice = "No process runs that could read it." if asked_at is None else "Every process reads it again."
    return Redirect(page.path, notice=notice)


@page.get("/named/{name}")
async def show_type(request: ApiRequest, name: str) -> View:
    """Show a type with its messages in every locale and channel, from an example payload."""
    found = _find(request, name)
    return await _show(request, found, example_payload(_catalog(request), found))


@page.post("/named/{name}/preview", Right.SEE_TOGGLES)
async def preview_type(request: ApiRequest, name: str, form: PreviewForm) -> View:
    """Show the messages of a type with another payload."""
    found = _find(request, name)
    return await _show(request, found, _checked(request, found, form.payload))


@page.post("/named/{name}/explain", Right.ACCEPT)
async def explain(request: ApiRequest, name: str, form: ExplainForm) -> View:
    """Show what would become of an intent of a type; nothing is accepted."""
    found, recipient = _find(request, name), form.recipient.strip()
    payload = _checked(request, found, form.payload)
    intent = {"type": found.name, "audience": {form.kind: [recipient]}, "payload": payload}
    explained = await explain_intent(request, msgspec.json.encode(intent), _moment(form.at))
    return await _show(request, found, payload, explained, form)


async def _show(
    request: ApiRequest,
    shown: NotificationType,
    payload: Mapping[str, Any],
    explanation: Explanation | None = None,
    form: ExplainForm | None = None,
) -> View:
    states = {state.name: state for state in await find_toggles(request)}
    names = dict.fromkeys(name for channel in shown.channels for name in toggles_of(shown.name, channel))
    previews, fault = _previews(_catalog(request), shown, payload)
    return View(
        "types/show.html",
        {
            "type": shown,
            "address": _path(shown.name),
            "toggles": [TypeToggleState(name, states.get(name)) for name in sorted(names)],
            "rates": await _rates(request, shown.name),
            "payload": payload,
            "previews": previews,
            "fault": fault,
            "explanation": explanation,
            "form": form,
            "may_change": request.holder.may(Right.CHANGE_TOGGLES),
            "may_explain": request.holder.may(Right.ACCEPT),
        },
    )


async def _rates(request: ApiRequest, type_: str | None = None) -> list[Rates]:
    """Read the delivery and open rates of the usual days, of one type or all."""
    async with request.pool.acquire() as connection:
        return (await read_rates(connection, request.now(), type_=type_)).rates


def _previews(
    catalog: Catalog, shown: NotificationType, payload: Mapping[str, Any]
) -> tuple[dict[str, list[Preview]], str | None]:
    """Render every message by channel, or return why that is not possible."""
    by_channel: dict[str, list[Preview]] = {}
    try:
        for each in preview(catalog, shown, payload):
            by_channel.setdefault(each.channel, []).append(each)
    except RenderError as error:
        return {}, str(error)
    return by_channel, None


def _checked(request: ApiRequest, found: NotificationType, text: str) -> dict[str, Any]:
    """Return the payload of a form; raise a problem unless it fits the type."""
    try:
        payload = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise fault_problem("payload", "invalid", "must be an object in JSON") from None
    if faults := _catalog(request).faults(found.name, found.version, payload):
        raise faults_problem(INVALID_INTENT, *faults)
    return payload


def _moment(text: str | None) -> datetime | None:
    """Return the moment of a form: browsers send it without an offset, and it is UTC."""
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise fault_problem("at", "invalid", "must be a time such as 2026-01-31T09:00") from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def _summary(catalog: Catalog, each: NotificationType, off: frozenset[str]) -> TypeSummary:
    names = dict.fromkeys(name for channel in each.channels for name in toggles_of(each.name, channel))
    locales = {locale for channel in each.channels for locale in catalog.locales(each, channel)}
    return TypeSummary(each, tuple(sorted(locales)), _only(names, off))


def _only(names: Iterable[str], chosen: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in chosen)


def _notice(switched: SwitchedToggle) -> str:
    held = f"{switched.held.count:,}{'+' if switched.held.or_more else ''} deliveries"
    discarded = f" {switched.discarded:,} were cancelled." if switched.discarded else ""
    effect = f"on; {held} continue." if switched.enabled else f"off; {held} wait."
    return " ".join([f"{switched.name} is {effect}{discarded}", *switched.warnings])


def _find(request: ApiRequest, name: str) -> NotificationType:
    found = _catalog(request).find(name)
    if found is None:
        raise ProblemError(NOT_FOUND, "The catalog has no such type.")
    return found


def _catalog(request: ApiRequest) -> Catalog:
    return request.services.explainer.rules.catalog


def _path(name: str) -> str:
    return f"{page.path}/named/{name}"
