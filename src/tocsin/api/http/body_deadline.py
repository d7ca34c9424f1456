"""A deadline for the body of a request, so that a slow client does not keep its connection for ever."""

import asyncio

from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.types.asgi_types import HTTPReceiveMessage, WebSocketReceiveMessage

from tocsin.api.http.problems import BODY_TIMEOUT, ProblemError


class BodyDeadline:
    """Wraps an app; reading a body raises a problem once the client took longer than `seconds`."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        deadline: float | None = None
        complete = False

        async def receive_in_time() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal deadline, complete
            if complete:
                return await receive()
            deadline = deadline or asyncio.get_running_loop().time() + self._seconds
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                detail = f"The body was not complete within {self._seconds:g} seconds."
                raise ProblemError(BODY_TIMEOUT, detail, headers={"Connection": "close"}) from None
            complete = not message.get("more_body", False)
            return message

        return receive_in_time
