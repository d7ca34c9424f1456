"""The app that Prometheus scrapes."""

from collections.abc import Awaitable, Callable
from typing import Any

from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp

from tocsin.api.http.problems import NOT_FOUND, ProblemError
from tocsin.api.http.replies import problem_reply
from tocsin.api.starting import complete_lifespan
from tocsin.telemetry.samples import Samples


class MetricsApp:
    """Answers `/metrics` with what `collect` returns."""

    def __init__(self, collect: Callable[[], Awaitable[Samples]]) -> None:
        self._collect = collect

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await complete_lifespan(receive, send)
        else:
            await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Any) -> ASGIApp:
        if scope["path"] != "/metrics":
            return problem_reply(ProblemError(NOT_FOUND, "This port answers /metrics alone."))
        from tocsin.telemetry.prometheus import render  # noqa: PLC0415 - a process without the port starts faster

        accept = b",".join(value for name, value in scope["headers"] if name == b"accept")
        body, content_type = render(await self._collect(), accept.decode("latin-1"))
        return ASGIResponse(body=body, status_code=200, headers={"content-type": content_type})
