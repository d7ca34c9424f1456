"""Decides who may open a session, and where in the stream it begins."""

import asyncio
import contextlib
import random
from math import ceil

from tocsin.api.auth.jwks import KeySetUnreachableError
from tocsin.api.auth.tokens import PersonTokens, TokenRefusedError
from tocsin.api.http.problems import INVALID_QUERY, UNAUTHENTICATED, UNAVAILABLE, ProblemError, fault_problem
from tocsin.api.settings import AuthSettings
from tocsin.engine.clock import utc_now
from tocsin.gateway.events import EventSource, SourceUnavailableError, parse_entry_id
from tocsin.gateway.requests import ConnectRequest
from tocsin.gateway.sessions import UNKNOWN, Person, Sessions
from tocsin.gateway.settings import GatewaySettings
from tocsin.wire.streams.entry_ids import EntryId

STARTING_SECONDS = 2.0
"""How long a client waits at most for a gateway that has not read its stream yet."""
LONGEST_SESSION = 86_400
"""Seconds: a token without an end in sight is verified again after a day."""


class Admission:
    """Verifies tokens and positions of clients."""

    def __init__(
        self, settings: GatewaySettings, auth: AuthSettings, sessions: Sessions, source: EventSource
    ) -> None:
        self._settings = settings
        self._leeway = auth.leeway_seconds
        self._tokens = PersonTokens(auth)
        self._sessions = sessions
        self._source = source

    async def admit(self, request: ConnectRequest) -> tuple[Person, EntryId | None]:
        """Return whose session it is and the entry after which it begins; raise a problem if it may not."""
        person = await self.authenticate(request)
        after = await self._after(request.last_event_id)
        if self._sessions.is_stopping:
            raise self.retry_later("The gateway is stopping; retry.")
        return person, after

    async def authenticate(self, request: ConnectRequest) -> Person:
        """Return whose token a request has; raise a problem if it has none that is valid."""
        return await self._person(request.token)

    def retry_ms(self) -> int:
        """Return how long a client should wait before it connects again; not all wait equally long."""
        return int(1_000 * self._settings.retry_seconds * random.uniform(1, 2))  # noqa: S311 - jitter

    def retry_later(self, detail: str) -> ProblemError:
        """Build the problem of what will work later."""
        return ProblemError(UNAVAILABLE, detail, headers=self.retry_header())

    def retry_header(self) -> dict[str, str]:
        """Return the header with which a refused client waits."""
        return {"Retry-After": str(ceil(self.retry_ms() / 1_000))}

    async def aclose(self) -> None:
        """Close the connection to the identity provider."""
        await self._tokens.aclose()

    async def _person(self, token: str | None) -> Person:
        if not token:
            detail = "Send the person's token as `Authorization: Bearer <JWT>` or as `access_token`."
            raise _unauthenticated('Bearer realm="tocsin"', detail)
        try:
            verified = await self._tokens.verify(token)
        except TokenRefusedError as error:
            challenge = 'Bearer realm="tocsin", error="invalid_token"'
            raise _unauthenticated(challenge, str(error)) from None
        except KeySetUnreachableError as error:
            detail = "The keys that sign people's tokens cannot be fetched; retry."
            raise self.retry_later(detail) from error
        device_session_id = verified.claims.get(self._settings.device_session_claim)
        # Whole numbers first: what a token claims may be too large for a float.
        left = int(verified.claims["exp"]) + self._leeway - int(utc_now().timestamp())
        return Person(
            verified.user_id,
            device_session_id if isinstance(device_session_id, str) else None,
            float(min(left, LONGEST_SESSION)),
        )

    async def _position(self) -> EntryId | None:
        """Return where the sessions are in the stream; wait a moment for the first look at it.

        A browser's `EventSource` gives up for good when it is refused, and connects while a gateway starts.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTING_SECONDS):
                await self._sessions.has_position.wait()
        return self._sessions.position

    async def _after(self, last_event_id: str | None) -> EntryId | None:
        """Return the entry that a client has seen last; UNKNOWN if the stream never had it."""
        position = await self._position()
        if position is None:
            raise self.retry_later("The gateway is starting; retry.")
        if not last_event_id:
            return None
        after = parse_entry_id(last_event_id)
        if after is None:
            message = "is not the id of an event that this gateway sent"
            raise fault_problem("last_event_id", "invalid", message, INVALID_QUERY)
        if after <= position:
            return after
        try:
            # Another replica may have been faster.
            return after if await self._source.has(after) else UNKNOWN
        except SourceUnavailableError as error:
            raise self.retry_later(f"{error} Retry.") from error


def _unauthenticated(challenge: str, detail: str) -> ProblemError:
    return ProblemError(UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})
