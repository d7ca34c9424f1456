"""Sessions of the dashboard: a cookie with a random id, and a row that ends with the API key."""

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import Cookie

from tocsin.api.auth.holders import Holder
from tocsin.api.auth.roles import Role
from tocsin.store import audit, dashboard_sessions
from tocsin.store.pool import Pool

SESSION = "tocsin_session"
VISITOR = "tocsin_visitor"
"""The cookie of somebody who has not signed in; the form to sign in is bound to it."""
PATH = "/dashboard"
_LONGEST_COOKIE = 100


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who has signed in, and the token that their forms have to send."""

    holder: Holder
    csrf_token: str


async def open_session(pool: Pool, holder: Holder, lasts: timedelta) -> str:
    """Store a session of the holder of an API key and record it in the audit; return the session's id."""
    if holder.key_id is None:
        raise LookupError("a session needs the id of an API key")
    session_id = secrets.token_urlsafe(32)
    async with pool.acquire() as connection, connection.transaction():
        await dashboard_sessions.open_session(connection, _digest(session_id), holder.key_id, lasts)
        await audit.record(connection, actor=holder.actor, action="session.open", subject=_subject(holder))
    return session_id


async def find_session(request: Request[Any, Any, Any], pool: Pool) -> Session | None:
    """Return the session of a request; None if it has none, or the session or its key has ended."""
    session_id = read_cookie(request, SESSION)
    if session_id is None:
        return None
    row = await dashboard_sessions.find_live(pool, _digest(session_id))
    if row is None:
        return None
    holder = Holder(producer=row.producer, roles=(Role(row.role),), key_id=row.key_id, org_id=row.org_id)
    return Session(holder=holder, csrf_token=csrf_token(session_id))


async def close_session(request: Request[Any, Any, Any], pool: Pool) -> None:
    """End the session of a request, if it has one."""
    session_id = read_cookie(request, SESSION)
    if session_id is not None:
        await dashboard_sessions.close(pool, _digest(session_id))


async def close_all_sessions(pool: Pool, holder: Holder) -> int:
    """End every session of the holder's key and record it in the audit; return how many there were."""
    if holder.key_id is None:
        return 0
    async with pool.acquire() as connection, connection.transaction():
        count = await dashboard_sessions.close_of_key(connection, holder.key_id)
        await audit.record(
            connection,
            actor=holder.actor,
            action="session.close_all",
            subject=_subject(holder),
            details={"count": count},
        )
    return count


def csrf_token(cookie: str) -> str:
    """Return the token that the forms for the owner of a cookie send; it does not reveal the cookie."""
    return hmac.digest(cookie.encode(), b"tocsin csrf token", "sha256").hex()


def is_csrf_token(given: str, cookie: str) -> bool:
    """Return whether a form was made for the owner of a cookie, in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), csrf_token(cookie).encode())


def read_cookie(request: Request[Any, Any, Any], name: str) -> str | None:
    """Return a cookie of a request; None if there is none, or none that is set here."""
    value = request.cookies.get(name)
    is_own = value is not None and 0 < len(value) <= _LONGEST_COOKIE and value.isascii()
    return value if is_own else None


def make_cookie(request: Request[Any, Any, Any], name: str, value: str, seconds: int | None) -> Cookie:
    """Build a cookie that scripts cannot read and other sites cannot send; 0 seconds deletes it."""
    return Cookie(
        name,
        path=PATH,
        value=value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=_is_https(request),
    )


def _is_https(request: Request[Any, Any, Any]) -> bool:
    # Who claims it falsely only keeps the cookie from coming back.
    forwarded = request.headers.get("x-forwarded-proto", "")
    return "https" in {request.scope["scheme"], forwarded.partition(",")[0].strip().lower()}


def _subject(holder: Holder) -> str:
    return f"key:{holder.producer}"


def _digest(session_id: str) -> bytes:
    # 32 random bytes cannot be guessed, so they need no salt and no slow hash.
    return hashlib.sha256(session_id.encode()).digest()
