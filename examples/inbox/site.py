"""The web server of the example: its page, its sign-in, and `/v1/` forwarded to Tocsin."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from litestar import Litestar, Request, Response, get, post, route
from litestar.response import Stream
from pyreqwest.client import Client, ClientBuilder

from tocsin.client import AsyncTocsin

ASSETS = Path(__file__).parent / "page"
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PEOPLE = ("ada", "mina")
# What belongs to one connection, or is written anew, is not forwarded.
DROPPED = {"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding"}


class Site:
    """The application: people, a button, and a reverse proxy, which is nginx or Caddy in production."""

    def __init__(self, tocsin: AsyncTocsin, tocsin_url: str, token: Callable[[str], str]) -> None:
        self._tocsin = tocsin
        self._url = tocsin_url
        self._token = token
        self._exits = AsyncExitStack()
        self._client: Client

    async def __aenter__(self) -> Self:
        """Open the connection to Tocsin."""
        self._client = await self._exits.enter_async_context(ClientBuilder().build())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._exits.aclose()

    async def announce(self, user_id: str, title: str, text: str) -> None:
        """Send an announcement to the inbox of a person."""
        await self._tocsin.send(
            "announcement",
            users=[user_id],
            payload={"title": title, "text": text, "link": "/?from=the-inbox"},
            idempotency_key=secrets.token_hex(8),
        )

    def app(self) -> Litestar:
        """Build the application."""

        @get(["/", "/{name:str}"], sync_to_thread=False)
        def asset(name: str = "index.html") -> Response[bytes]:
            known = {path.name: path for path in ASSETS.iterdir()}
            if name not in known:
                return Response(b"Not found", status_code=404, media_type="text/plain")
            headers = {"content-security-policy": POLICY, "cache-control": "no-store"}
            media_type = f"{MEDIA[known[name].suffix]}; charset=utf-8"
            return Response(known[name].read_bytes(), media_type=media_type, headers=headers)

        # A real application signs for whoever has signed in, and for nobody else.
        @post("/session/{person:str}", sync_to_thread=False)
        def sign_in(person: str) -> Response[dict[str, str]]:
            if person not in PEOPLE:
                return Response({}, status_code=404)
            return Response({"token": self._token(person)}, status_code=200)

        @post("/announcements")
        async def send(data: dict[str, str]) -> Response[dict[str, str]]:
            await self.announce(data["person"], data["title"], data["text"])
            return Response({}, status_code=202)

        @route("/v1/{path:path}", http_method=["GET", "POST", "PATCH"])
        async def forward(request: Request[Any, Any, Any]) -> Stream:
            return await self._forward(request)

        return Litestar([asset, sign_in, send, forward], openapi_config=None, logging_config=None)

    async def _forward(self, request: Request[Any, Any, Any]) -> Stream:
        """Pass a call on, and its answer back as it comes: a stream of events has no end."""
        headers = {name: value for name, value in request.headers.items() if name not in DROPPED}
        query = request.scope["query_string"].decode()
        builder = getattr(self._client, request.method.lower())(f"{self._url}{request.url.path}?{query}")
        exits = AsyncExitStack()
        answer = await exits.enter_async_context(
            builder.headers(headers)
            .body_bytes(await request.body())
            .streamed_read_buffer_limit(0)
            .build_streamed()
        )

        async def content() -> AsyncIterator[bytes]:
            async with exits:
                while (chunk := await answer.body_reader.read_chunk()) is not None:
                    yield bytes(chunk)

        shown = {name: value for name, value in answer.headers.items() if name not in DROPPED}
        return Stream(
            content(),
            status_code=answer.status,
            headers=shown,
            media_type=shown.pop("content-type", "").partition(";")[0],
        )
