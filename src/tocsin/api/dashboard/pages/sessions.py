"""Sessions of the dashboard: one's own, and for admins those of everybody."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.access import required_session
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.dashboard.sessions import Session, audit_subject, current_owner, owner_holder
from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.store import audit, dashboard_sessions
from tocsin.store.pool import Connection

LISTED = 200

page = Page("sessions", "Sessions", Right.SEE_ALL, within_organisation=True)


class EndOne(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The digest of the id of a session, in hex: it opens no session."""

    session: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class EndOthers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose sessions end, apart from this one."""

    whose: Literal["own", "all"] = "own"


@page.get()
async def list_sessions(request: ApiRequest) -> View:
    """Show the sessions that whoever has signed in may end, those that end last first."""
    session = required_session(request)
    of_all = _may_end_all(session)
    rows = await dashboard_sessions.list_live(request.pool, None if of_all else session.owner, LISTED)
    owners = [(row, current_owner(row, request.services.oidc)) for row in rows]
    context = {
        "rows": [(row, owner_holder(owner)) for row, owner in owners if owner is not None],
        "own": session.id_hash,
        "of_all": of_all,
        "most": LISTED,
    }
    return View("sessions/index.html", context)


@page.post("/end", Right.SEE_ALL)
async def end_one(request: ApiRequest, form: EndOne) -> Redirect:
    """End a session, if it is one's own or one may end all; this one too."""
    session, id_hash = required_session(request), bytes.fromhex(form.session)
    async with request.pool.acquire() as connection, connection.transaction():
        owner = await dashboard_sessions.find_live(connection, id_hash)
        if owner is None or not (_may_end_all(session) or _is_same(session, owner)):
            raise ProblemError(NOT_FOUND, "There is no such session; it may have ended already.")
        await dashboard_sessions.close(connection, id_hash)
        await _record(connection, session, "session.close", audit_subject(owner_holder(owner)))
    ended = owner_holder(owner)
    return Redirect(page.path, notice=f"The session of {ended.name or ended.producer} has ended.")


@page.post("/end-others", Right.SEE_ALL)
async def end_others(request: ApiRequest, form: EndOthers) -> Redirect:
    """End every other session of one's own, or of everybody."""
    session = required_session(request)
    async with request.pool.acquire() as connection, connection.transaction():
        if form.whose == "own":
            count = await dashboard_sessions.close_of_owner(connection, session.owner, but=session.id_hash)
            subject = audit_subject(session.holder)
        elif _may_end_all(session):
            count = await dashboard_sessions.close_all(connection, but=session.id_hash)
            subject = "sessions"
        else:
            raise ProblemError(NOT_FOUND, "The sessions of others are not shown to you.")
        await _record(connection, session, "session.close_all", subject, count=count)
    noun = "session has" if count == 1 else "sessions have"
    return Redirect(page.path, notice=f"{count} other {noun} ended.")


def _may_end_all(session: Session) -> bool:
    return session.holder.may(Right.KEYS) and session.holder.org_id is None


def _is_same(session: Session, owner: dashboard_sessions.SessionOwner) -> bool:
    of_owner = (owner.key_id, owner.issuer, owner.subject)
    return of_owner == (session.owner.key_id, session.owner.issuer, session.owner.subject)


async def _record(
    connection: Connection, session: Session, action: str, subject: str, **details: object
) -> None:
    await audit.record(
        connection, actor=session.holder.actor, action=action, subject=subject, details=details
    )
