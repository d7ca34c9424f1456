"""A stream of one part of a page to one browser."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import TypeAlias

from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send
from litestar.types.asgi_types import HTTPResponseBodyEvent

from tocsin.api.dashboard.access import is_still_allowed, session_of
from tocsin.api.dashboard.live.hub import LONGEST_READING, LiveHub, Read, TooManyStreamsError, Viewer
from tocsin.api.dashboard.rendering import render_part
from tocsin.api.dashboard.responses import HEADERS, View
from tocsin.api.http.event_streams import EVENT_STREAM, event, event_stream_start
from tocsin.api.http.problems import BAD_REQUEST, TOO_MANY_SESSIONS, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.services import Services
from tocsin.store.pool import AWAY

CHECK_SECONDS = 5.0
"""How often the session is looked up; as long as that a stream may be silent."""
SEND_SECONDS = 10.0
RETRY = b"retry: 3000\n\n"
PING = b": ping\n\n"
SIGNED_OUT = event("end", "signed_out")
RESTART = event("end", "restart")

ReadView: TypeAlias = Callable[[], Awaitable[View]]


def open_stream(request: ApiRequest, part: Hashable, read: ReadView) -> "EventStreamResponse":
    """Build the stream of a part of a page; raise a problem if the browser did not ask for a stream."""
    if EVENT_STREAM not in request.headers.get("accept", ""):
        raise ProblemError(BAD_REQUEST, f"This is a stream of events: send Accept: {EVENT_STREAM}.")
    return EventStreamResponse(request, part, rendering(request.services, read))


def rendering(services: Services, read: ReadView) -> Read:
    """Return a function that reads a view and renders it, whoever looks at it."""

    async def rendered() -> str:
        view = await read()
        return render_part(view.template, view.context, services.clock())

    return rendered


class EventStreamResponse(ASGIResponse):
    """A response that ends with the session, the server or the connection of the browser."""

    def __init__(self, request: ApiRequest, part: Hashable, read: Read) -> None:
        super().__init__()
        self._request = request
        self._part = part
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Stream until the end; raise a problem if there are too many streams."""
        hub: LiveHub = self._request.app.state.dashboard_live
        session = session_of(self._request)
        if session is None:
            raise LookupError("the route needs a session")
        try:
            with hub.watching(self._part, self._read, session.csrf_token) as viewer:
                await self._serve(viewer, receive, send)
        except TooManyStreamsError as error:
            raise ProblemError(TOO_MANY_SESSIONS, str(error)) from None

    async def _serve(self, viewer: Viewer, receive: Receive, send: Send) -> None:
        following = asyncio.create_task(self._follow(viewer, send))
        watching = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait([following, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            following.cancel()
            await asyncio.wait([following, watching])
        if not following.cancelled():
            following.result()

    async def _follow(self, viewer: Viewer, send: Send) -> None:
        """Send what the viewer has until the stream is to end, or the client does not read it."""
        headers = {name: value for name, value in HEADERS.items() if name != "cache-control"}
        await send(event_stream_start(headers))  # type: ignore[arg-type]
        with suppress(TimeoutError):
            await _write(send, RETRY)
            await _write(send, await self._last_event(viewer, send), more=False)

    async def _last_event(self, viewer: Viewer, send: Send) -> bytes:
        """Send what changes, and pings, until the stream is to end; return why it ends."""
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            newest = await viewer.next(CHECK_SECONDS)
            if viewer.is_ended:
                return RESTART
            if loop.time() - checked_at >= CHECK_SECONDS:
                try:
                    async with asyncio.timeout(LONGEST_READING):
                        is_allowed = await is_still_allowed(self._request)
                except AWAY:
                    # Nobody is known to be signed in.
                    return RESTART
                if not is_allowed:
                    return SIGNED_OUT
                checked_at = loop.time()
            await _write(send, newest or PING)


async def _write(send: Send, data: bytes, *, more: bool = True) -> None:
    """Send a part of the response; raise TimeoutError if the client does not read it."""
    body: HTTPResponseBodyEvent = {"type": "http.response.body", "body": data, "more_body": more}
    async with asyncio.timeout(SEND_SECONDS):
        await send(body)


async def _disconnected(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
