"""The connection tokens that clients of SignalR negotiate, and the sessions to which they post."""

import asyncio
import contextlib
import secrets
from collections.abc import Iterator
from typing import NamedTuple

from tocsin.gateway.sessions import TooManySessionsError
from tocsin.gateway.signalr.transports import HubSseTransport

TOKEN_BYTES = 32
TOKEN_SECONDS = 15.0
"""How long a connection token may be used; a client uses it at once."""


class _Negotiated(NamedTuple):
    user_id: str
    expires: float


class _Posting(NamedTuple):
    user_id: str
    transport: HubSseTransport


class Connections:
    """Connection tokens: random, bounded in number, good for one connection within a time.

    At the bound of a person their oldest token is dropped; at that of the process nobody gets one.
    """

    def __init__(self, most: int, most_of_user: int) -> None:
        self._most = most
        self._most_of_user = most_of_user
        self._negotiated: dict[str, _Negotiated] = {}
        self._of_user: dict[str, list[str]] = {}
        self._posting: dict[str, _Posting] = {}

    def negotiate(self, user_id: str) -> str:
        """Return a connection token for a person; raise TooManySessionsError if there are too many."""
        now = asyncio.get_running_loop().time()
        self._drop_expired(now)
        if len(self._of_user.get(user_id, ())) >= self._most_of_user:
            self._drop(self._of_user[user_id][0])
        if len(self._negotiated) >= self._most:
            raise TooManySessionsError("Too many clients are about to connect; retry.")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._negotiated[token] = _Negotiated(user_id, now + TOKEN_SECONDS)
        self._of_user.setdefault(user_id, []).append(token)
        return token

    def redeem(self, token: str, user_id: str) -> bool:
        """Use up a token; return whether it was one of this person."""
        negotiated = self._negotiated.get(token)
        if negotiated is None or negotiated.user_id != user_id:
            return False
        self._drop(token)
        return negotiated.expires > asyncio.get_running_loop().time()

    @contextlib.contextmanager
    def posting(self, token: str, user_id: str, transport: HubSseTransport) -> Iterator[None]:
        """Pass on what the client posts with its token for as long as the context is open."""
        self._posting[token] = _Posting(user_id, transport)
        try:
            yield
        finally:
            del self._posting[token]

    def transport(self, token: str, user_id: str) -> HubSseTransport | None:
        """Return the connection to which a person posts; None if they have none open with this token."""
        posting = self._posting.get(token)
        if posting is None or posting.user_id != user_id or not posting.transport.is_open:
            return None
        return posting.transport

    def _drop_expired(self, now: float) -> None:
        while self._negotiated and (oldest := next(iter(self._negotiated.items())))[1].expires <= now:
            self._drop(oldest[0])

    def _drop(self, token: str) -> None:
        user_id = self._negotiated.pop(token).user_id
        of_user = self._of_user[user_id]
        of_user.remove(token)
        if not of_user:
            del self._of_user[user_id]
