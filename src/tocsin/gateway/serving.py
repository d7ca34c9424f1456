"""Serves a session from its beginning to its end, whatever carries it."""

import asyncio
import contextlib
import random

from tocsin.api.http.problems import TOO_MANY_SESSIONS, ProblemError
from tocsin.gateway.admission import Admission
from tocsin.gateway.sessions import Ending, Person, Reset, Session, Sessions, TooManySessionsError
from tocsin.gateway.settings import GatewaySettings
from tocsin.gateway.transports import Transport
from tocsin.telemetry import metrics
from tocsin.wire.streams.entry_ids import EntryId

LAST_SECONDS = 1.0


class SessionServer:
    """Sends to a client what its session has, until one of them ends it."""

    def __init__(self, settings: GatewaySettings, sessions: Sessions, admission: Admission) -> None:
        self._settings = settings
        self._sessions = sessions
        self._admission = admission

    async def serve(self, person: Person, after: EntryId | None, transport: Transport) -> None:
        """Serve a session until it ends; raise a problem if there are too many."""
        with contextlib.ExitStack() as exits:
            try:
                session = exits.enter_context(self._sessions.opened(person, transport.name, after))
            except TooManySessionsError as error:
                raise self.too_many(error) from None
            watching = asyncio.create_task(_watch(session, transport))
            try:
                async with session.until_ended():
                    await transport.open(self._admission.retry_ms())
                    session.is_open = True
                    await self._follow(session, transport)
            finally:
                watching.cancel()
                await asyncio.wait([watching])
            await self._end(session, transport)

    def too_many(self, error: TooManySessionsError) -> ProblemError:
        """Build the problem of too many sessions."""
        return ProblemError(TOO_MANY_SESSIONS, str(error), headers=self._admission.retry_header())

    async def _follow(self, session: Session, transport: Transport) -> None:
        """Send what the session has, and pings, until it is to end."""
        ping_in = 0.0
        while (item := await session.next(ping_in)) is not None or session.ending is None:
            match item:
                case None:
                    # Nothing waits, so the client has everything up to here.
                    await transport.ping(max(self._sessions.position or session.seen, session.seen))
                    ping_in = self._settings.ping_seconds * random.uniform(0.8, 1)  # noqa: S311 - not all at once
                case Reset():
                    await transport.reset()
                case event:
                    await transport.send(event)
                    metrics.gateway_events_sent.add((transport.name,))

    async def _end(self, session: Session, transport: Transport) -> None:
        """Report to the client why its session ends, if it can be reached in time."""
        ending = session.ending
        if ending is None or ending is Ending.CLOSED_BY_CLIENT:
            return
        retry_ms = self._admission.retry_ms()
        if ending is Ending.RESTART:
            longest = max(self._settings.reconnect_seconds, self._settings.retry_seconds)
            retry_ms = int(1_000 * random.uniform(self._settings.retry_seconds, longest))  # noqa: S311 - jitter
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await transport.end(ending.reason, ending.value, retry_ms)


async def _watch(session: Session, transport: Transport) -> None:
    session.interrupt(await transport.closed())
