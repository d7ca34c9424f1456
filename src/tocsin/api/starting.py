"""The app that stands before the API: it answers while the API waits for its database."""

from collections.abc import Awaitable
from typing import Any

from litestar import Litestar
from litestar.types import ASGIApp

from tocsin.api.http.problems import NOT_READY, RETRY_SOON, UNAVAILABLE, ProblemError
from tocsin.api.http.replies import problem_reply, reply
from tocsin.api.probes import Health


class StartingApp:
    """Passes requests to the app once there is one; until then it is alive, not ready and unavailable."""

    def __init__(self) -> None:
        self._app: Litestar | None = None

    async def wait_for(self, opening: Awaitable[Litestar | None]) -> None:
        """Wait until the app is built, or is not to be built any more."""
        self._app = await opening

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._complete_lifespan(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        else:
            await _answer(scope["path"])(scope, receive, send)

    async def _complete_lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._app is not None:
            # The app has hooks for the end of its lifespan alone.
            async with self._app.lifespan():
                pass
        await send({"type": "lifespan.shutdown.complete"})


def _answer(path: str) -> ASGIApp:
    if path == "/healthz":
        return reply(Health("ok"), 200)
    problem_type = NOT_READY if path == "/readyz" else UNAVAILABLE
    return problem_reply(
        ProblemError(problem_type, "The database does not answer; retry.", headers=RETRY_SOON)
    )
