"""The demo's page over HTTP: what it shows, and the actions behind its buttons and switches.

Its address contains a token that only this demo's terminal has printed, so that other users of the machine
and other pages of a browser can neither read it nor act through it. The API's keys never reach the browser.
"""

import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, parse_qsl

import msgspec
import structlog
from granian.rsgi import HTTPProtocol, Scope  # type: ignore[attr-defined]
from pyreqwest.exceptions import ClientClosedError

from tocsin.cli.demo.page.actions import Action, UnknownNameError, perform
from tocsin.cli.demo.page.assets import demo_assets
from tocsin.cli.demo.page.dashboard import DashboardSessions
from tocsin.cli.demo.page.fragments import Fragments
from tocsin.cli.demo.page.snapshot import Snapshots
from tocsin.cli.demo.page.stage import Stage
from tocsin.cli.demo.page.tour import Tour
from tocsin.domain.errors import TocsinError

HOST = "127.0.0.1"
_LARGEST_BODY = 4_096
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"

_log = structlog.stdlib.get_logger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the page."""

    status: int = 200
    body: bytes = b""
    content_type: str = _TEXT
    headers: Mapping[str, str] = {}


class RefusedError(Exception):
    """A request that is not answered; it holds the answer that says so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = Answer(status=status, body=text.encode())


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Serves the page of one demo at `http://127.0.0.1:{port}/{token}/`."""

    port: int
    token: str
    api_url: str
    stage: Stage
    tour: Tour
    snapshots: Snapshots
    sessions: DashboardSessions

    @property
    def origin(self) -> str:
        """The origin of the page."""
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self.origin}/{self.token}/"

    async def handle(self, scope: Scope, protocol: HTTPProtocol) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, protocol)
        except RefusedError as refused:
            answer = refused.answer
        except (TocsinError, ClientClosedError) as error:
            # The API does not answer, or the demo is being stopped.
            answer = Answer(status=503, body=str(error).encode())
        except Exception:
            _log.exception("demo page failed", method=scope.method)
            raise
        headers = {**self._headers(), "content-type": answer.content_type, **answer.headers}
        protocol.response_bytes(answer.status, list(headers.items()), answer.body)

    async def _answer(self, scope: Scope, protocol: HTTPProtocol) -> Answer:
        self._check_host(scope)
        path = self._path(scope)
        if path is None:
            return Answer(status=303, headers={"location": self.url})
        match scope.method, path.partition("/"):
            case "GET", ("", _, _):
                html = self._fragments.page(await self.snapshots.read())
                return Answer(body=html.encode(), content_type=_HTML)
            case "GET", ("live", "", _):
                return await self._changed(_seen(scope.query_string))
            case "GET", ("dashboard", "", _):
                return await self._to_dashboard(scope.query_string)
            case "GET", ("assets", _, name) if asset := demo_assets().get(name):
                return Answer(body=asset.content, content_type=asset.content_type)
            case "POST", ("act", "", _):
                return await self._act(scope, protocol)
        raise RefusedError(404, "There is no such page.")

    async def _act(self, scope: Scope, protocol: HTTPProtocol) -> Answer:
        self._check_origin(scope)
        length = scope.headers.get("content-length") or ""
        if not length.isdecimal() or int(length) > _LARGEST_BODY:
            raise RefusedError(413, "The form is too large.")
        fields = parse_qsl((await protocol()).decode("ascii", "replace"), max_num_fields=50)
        given = {name: value for name, value in fields if name != "seen"}
        try:
            action = msgspec.convert(given, Action)
        except msgspec.ValidationError as error:
            raise RefusedError(422, f"The form is not valid: {error}") from error
        try:
            await perform(action, self.stage, self.tour)
        except UnknownNameError as error:
            raise RefusedError(422, str(error)) from error
        self.snapshots.expire()
        if "hx-request" not in scope.headers:
            return Answer(status=303, headers={"location": self.url})
        return await self._changed([value for name, value in fields if name == "seen"])

    async def _changed(self, seen: list[str]) -> Answer:
        html = self._fragments.changed(await self.snapshots.read(), seen)
        return Answer(body=html.encode(), content_type=_HTML) if html else Answer(status=204)

    async def _to_dashboard(self, query: str) -> Answer:
        to = parse_qs(query, max_num_fields=5).get("to", ["/dashboard"])[0]
        link = await self.sessions.link(to)
        return Answer(status=303, headers={"location": link.location, "set-cookie": link.cookie})

    @property
    def _fragments(self) -> Fragments:
        return Fragments(self.stage, self.tour)

    def _check_host(self, scope: Scope) -> None:
        """Raise unless the request names this machine: a foreign domain may resolve to it (DNS rebinding)."""
        host = scope.authority or scope.headers.get("host")
        if host != f"{HOST}:{self.port}":
            raise RefusedError(
                421, f"Open the address that `tocsin demo` printed; it begins with {self.origin}"
            )

    def _path(self, scope: Scope) -> str | None:
        """Return the path after the token and its slash, or raise if the token is not the right one."""
        _, token, *rest = re.split("/", scope.path, maxsplit=2)
        if not hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            raise RefusedError(404, "Open the address that `tocsin demo` printed.")
        return rest[0] if rest else None

    def _check_origin(self, scope: Scope) -> None:
        """Raise unless a browser says that the form is from this page (CSRF)."""
        site = scope.headers.get("sec-fetch-site") or "same-origin"
        if scope.headers.get("origin") != self.origin or site != "same-origin":
            raise RefusedError(403, "The form is not from the demo's page.")

    def _headers(self) -> dict[str, str]:
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            f"frame-src 'self' {self.api_url}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
        return {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            # The address is a secret of this page.
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }


def _seen(query: str) -> list[str]:
    return parse_qs(query, max_num_fields=50).get("seen", [])
