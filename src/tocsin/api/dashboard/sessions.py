"""Sessions of the dashboard: a cookie with a random id, and a row that ends with its time or API key."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

import msgspec
from litestar.datastructures import Cookie

from tocsin.api.auth.holders import Holder
from tocsin.api.auth.oidc.identity import oidc_producer
from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.auth.roles import Role
from tocsin.api.http.requests import ApiRequest
from tocsin.store import audit, dashboard_sessions
from tocsin.store.dashboard_sessions import SessionOwner
from tocsin.store.pool import Connection, Pool
from tocsin.store.secrets.kept_secrets import get_or_make

SESSION = "tocsin_session"
VISITOR = "tocsin_visitor"
"""The cookie of somebody who has not signed in; the form to sign in is bound to it."""
PATH = "/dashboard"
_LONGEST_COOKIE = 100
_SUFFIX_NAME = "dashboard.cookie_suffix"
_SUFFIX_BYTES = 4


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who has signed in, and the token that their forms have to send."""

    holder: Holder
    owner: SessionOwner
    id_hash: bytes
    csrf_token: str


def key_owner(holder: Holder) -> SessionOwner:
    """Return the holder of an API key as the owner of a session."""
    if holder.key_id is None:
        raise LookupError("a session needs the id of an API key")
    [role] = holder.roles
    return SessionOwner(key_id=holder.key_id, producer=holder.producer, role=role, org_id=holder.org_id)


def owner_holder(owner: SessionOwner) -> Holder:
    """Return the holder that the owner of a session acts as."""
    return Holder(
        producer=owner.producer or oidc_producer(owner.subject or ""),
        roles=(Role(owner.role),),
        key_id=owner.key_id,
        org_id=owner.org_id,
        name=owner.name,
    )


async def stored_cookie_suffix(connection: Connection, now: datetime) -> str:
    """Return what the names of the dashboard's cookies end with, alike in all processes on a database."""
    return await get_or_make(connection, _SUFFIX_NAME, lambda: secrets.token_hex(_SUFFIX_BYTES), now)


async def open_session(pool: Pool, owner: SessionOwner, lasts: timedelta) -> str:
    """Store a session and record it in the audit; return the session's id."""
    session_id, holder = secrets.token_urlsafe(32), owner_holder(owner)
    details = {} if owner.issuer is None else {"issuer": owner.issuer, "role": owner.role}
    async with pool.acquire() as connection, connection.transaction():
        await dashboard_sessions.open_session(connection, _digest(session_id), owner, lasts)
        await audit.record(
            connection,
            actor=holder.actor,
            action="session.open",
            subject=audit_subject(holder),
            details=details,
        )
    return session_id


def current_owner(owner: SessionOwner, oidc: OidcSettings) -> SessionOwner | None:
    """Return the owner of a session with the role of the present settings; None if these end the session.

    Those of people end when the issuer or the claim is another one, or none of the values of their claim
    stands for a role any more.
    """
    if owner.issuer is None:
        return owner
    if (owner.issuer, owner.role_claim) != (oidc.issuer, oidc.role_claim):
        return None
    role = oidc.role_of(owner.role_values or ())
    return None if role is None else msgspec.structs.replace(owner, role=role)


async def find_session(request: ApiRequest) -> Session | None:
    """Return the session of a request; None if it has none, or the session or its key has ended."""
    session_id = read_cookie(request, SESSION)
    if session_id is None:
        return None
    id_hash = _digest(session_id)
    stored = await dashboard_sessions.find_live(request.pool, id_hash)
    owner = None if stored is None else current_owner(stored, request.services.oidc)
    if owner is None:
        return None
    return Session(
        holder=owner_holder(owner), owner=owner, id_hash=id_hash, csrf_token=csrf_token(session_id)
    )


async def close_session(request: ApiRequest, pool: Pool) -> None:
    """End the session of a request, if it has one."""
    session_id = read_cookie(request, SESSION)
    if session_id is not None:
        await dashboard_sessions.close(pool, _digest(session_id))


async def close_all_sessions(pool: Pool, session: Session) -> int:
    """End every session of the owner and record it in the audit; return how many there were."""
    async with pool.acquire() as connection, connection.transaction():
        count = await dashboard_sessions.close_of_owner(connection, session.owner)
        await audit.record(
            connection,
            actor=session.holder.actor,
            action="session.close_all",
            subject=audit_subject(session.holder),
            details={"count": count},
        )
    return count


def csrf_token(cookie: str) -> str:
    """Return the token that the forms for the owner of a cookie send; it does not reveal the cookie."""
    return hmac.digest(cookie.encode(), b"tocsin csrf token", "sha256").hex()


def is_csrf_token(given: str, cookie: str) -> bool:
    """Return whether a form was made for the owner of a cookie, in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), csrf_token(cookie).encode())


def cookie_name(request: ApiRequest, name: str) -> str:
    """Return the name under which browsers keep a cookie of this installation.

    They send a cookie to every port of a host, so that dashboards on one host must not share names.
    """
    return f"{name}_{request.services.cookie_suffix}"


def read_cookie(request: ApiRequest, name: str) -> str | None:
    """Return a cookie of a request; None if there is none, or none that is set here."""
    value = request.cookies.get(cookie_name(request, name))
    is_own = value is not None and 0 < len(value) <= _LONGEST_COOKIE and value.isascii()
    return value if is_own else None


def make_cookie(
    request: ApiRequest,
    name: str,
    value: str,
    seconds: int | None,
    path: str = PATH,
    *,
    secure: bool = False,
) -> Cookie:
    """Build a cookie that scripts cannot read and other sites cannot send; 0 seconds deletes it."""
    return Cookie(
        cookie_name(request, name),
        path=path,
        value=value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=secure or _is_https(request),
    )


def _is_https(request: ApiRequest) -> bool:
    # Who claims it falsely only keeps the cookie from coming back.
    forwarded = request.headers.get("x-forwarded-proto", "")
    return "https" in {request.scope["scheme"], forwarded.partition(",")[0].strip().lower()}


def audit_subject(holder: Holder) -> str:
    """Return the owner of a session as the audit shows it."""
    return f"key:{holder.producer}" if holder.key_id else holder.producer


def _digest(session_id: str) -> bytes:
    # 32 random bytes cannot be guessed, so they need no salt and no slow hash.
    return hashlib.sha256(session_id.encode()).digest()
