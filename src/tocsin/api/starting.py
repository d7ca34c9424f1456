"""The apps of a process that has no API, or none yet."""

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Litestar
from litestar.types import ASGIApp

from tocsin.api.http.problems import NOT_FOUND, NOT_READY, RETRY_SOON, UNAVAILABLE, ProblemError
from tocsin.api.http.replies import problem_reply, reply
from tocsin.api.probes import Health
from tocsin.catalog.catalog import Catalog

TRY_AGAIN_LATER = 1013


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
            await complete_lifespan(receive, send, self._close)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
        else:
            await self._answer(scope["path"])(scope, receive, send)

    async def _close(self) -> None:
        if self._app is not None:
            # The app has hooks for the end of its lifespan alone.
            async with self._app.lifespan():
                pass

    def _answer(self, path: str) -> ASGIApp:
        if path == "/healthz":
            return reply(Health("ok"), 200)
        problem_type = NOT_READY if path == "/readyz" else UNAVAILABLE
        detail = "The database does not answer; retry."
        return problem_reply(ProblemError(problem_type, detail, headers=RETRY_SOON))


class ProbeApp:
    """Answers liveness and readiness: a process is ready once it has a `catalog` and no `fault` is found.

    One that works without a catalog has none to wait for.
    """

    def __init__(
        self,
        fault: Callable[[], Awaitable[str | None]],
        catalog: Callable[[], Catalog | None] | None = None,
    ) -> None:
        self._fault = fault
        self._catalog = catalog

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await complete_lifespan(receive, send)
        else:
            await (await self._answer(scope["path"]))(scope, receive, send)

    async def _answer(self, path: str) -> ASGIApp:
        match path:
            case "/healthz":
                return reply(Health("ok"), 200)
            case "/readyz":
                fault = await self._fault()
                catalog = None if self._catalog is None else self._catalog()
                if fault is None and (catalog is not None or self._catalog is None):
                    return reply(Health("ready", catalog.fingerprint if catalog else None), 200)
                fault = fault or "The process starts."
                return problem_reply(ProblemError(NOT_READY, fault, headers=RETRY_SOON))
            case _:
                detail = "This process answers /healthz and /readyz alone."
                return problem_reply(ProblemError(NOT_FOUND, detail))


async def complete_lifespan(
    receive: Any, send: Any, close: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Answer the lifespan messages of the server; call `close` when it shuts down."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    if close is not None:
        await close()
    await send({"type": "lifespan.shutdown.complete"})
