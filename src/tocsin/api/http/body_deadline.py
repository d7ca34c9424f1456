"""A deadline for the body of a request, so that a slow client does not keep its connection for ever."""

import asyncio

from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.types.asgi_types import HTTPReceiveMessage, WebSocketReceiveMessage

from tocsin.api.http.problems import BODY_TIMEOUT, ProblemError

LONGEST_STREAM = 3_600.0
"""How many seconds a body may take that is stored while it is received."""


class BodyDeadline:
    """Wraps an app; reading a body raises a problem once the client took longer than `seconds`.

    Below the `streamed` path, if there is one, each part of a body has that long, and the whole an hour.
    """

    def __init__(self, app: ASGIApp, seconds: float, streamed: str | None = None) -> None:
        self._app = app
        self._seconds = seconds
        self._streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_streamed = self._streamed is not None and scope["path"].startswith(self._streamed)
        await self._app(scope, self._limited(receive, LONGEST_STREAM if is_streamed else self._seconds), send)

    def _limited(self, receive: Receive, whole: float) -> Receive:
        deadline: float | None = None
        complete = False

        async def receive_in_time() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal deadline, complete
            if complete:
                return await receive()
            now = asyncio.get_running_loop().time()
            deadline = deadline or now + whole
            try:
                async with asyncio.timeout_at(min(deadline, now + self._seconds)):
                    message = await receive()
            except TimeoutError:
                detail = f"The body was not complete within {self._seconds:g} seconds."
                raise ProblemError(BODY_TIMEOUT, detail, headers={"Connection": "close"}) from None
            complete = not message.get("more_body", False)
            return message

        return receive_in_time
