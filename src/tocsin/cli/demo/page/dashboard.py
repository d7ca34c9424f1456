"""Signing a visitor of the demo's page in to the dashboard, which is shown beside it."""

import re
from datetime import timedelta
from html import unescape
from http.cookies import SimpleCookie

import msgspec
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import RequestError
from pyreqwest.response import Response

from tocsin.api.dashboard.access import CSRF_FIELD, SIGN_IN
from tocsin.api.dashboard.sessions import PATH, SESSION, VISITOR
from tocsin.cli.demo.page.calls import Access
from tocsin.domain.errors import TocsinError

_OWN_PATH = re.compile(rf"{PATH}(/[\w~@:-][\w.~@:-]*)*(\?[\w.~%@:&=+,-]*)?", re.ASCII)
_CSRF = re.compile(rf'name="{CSRF_FIELD}" value="([^"]+)"')
_OK, _SEE_OTHER = 200, 303
_LONGEST_CALL = 10.0


class SignInError(TocsinError):
    """The dashboard did not open a session."""


class DashboardLink(msgspec.Struct, frozen=True):
    """Where a page of the dashboard is, and the name and value of the cookie that may see it."""

    location: str
    session: str

    @property
    def cookie(self) -> str:
        """The cookie of the session; browsers send it to every port of the host that set it."""
        return f"{self.session}; Path={PATH}; HttpOnly; SameSite=Strict"


class DashboardSessions:
    """Keeps one session of the dashboard, with the rights of an operator."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._client: Client = _client_builder().build()
        self._session = ""

    async def link(self, path: str) -> DashboardLink:
        """Return the address of a page of the dashboard and a live session for it."""
        wanted = path if _OWN_PATH.fullmatch(path) else PATH
        if not self._session or not await self._is_live():
            self._session = await self._sign_in()
        return DashboardLink(self._access.base_url + wanted, self._session)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _is_live(self) -> bool:
        answer = await self._request("GET", PATH, self._session)
        return answer.status == _SEE_OTHER and SIGN_IN not in (answer.get_header("location") or "")

    async def _sign_in(self) -> str:
        """Send the form of the dashboard, as an operator does."""
        form = await self._request("GET", SIGN_IN)
        visitor, token = _cookie(form, VISITOR), _CSRF.search(await form.text())
        if form.status != _OK or not visitor or token is None:
            raise SignInError("The dashboard shows no form to sign in.")
        fields = {CSRF_FIELD: unescape(token[1]), "key": self._access.operator_key}
        answer = await self._request("POST", SIGN_IN, visitor, fields)
        session = _cookie(answer, SESSION)
        if answer.status != _SEE_OTHER or not session:
            raise SignInError("The dashboard did not accept the demo's key.")
        return session

    async def _request(
        self,
        method: str,
        path: str,
        cookie: str = "",
        form: dict[str, str] | None = None,
    ) -> Response:
        building = self._client.request(method, self._access.base_url + path)
        if cookie:
            building = building.header("cookie", cookie, is_sensitive=True)
        if form is not None:
            building = building.form(form)
        try:
            return await building.build().send()
        except RequestError as error:
            raise SignInError("The dashboard does not answer.") from error


def _client_builder() -> ClientBuilder:
    return (
        ClientBuilder()
        .follow_redirects(enable=False)
        .error_for_status(enable=False)
        .timeout(timedelta(seconds=_LONGEST_CALL))
    )


def _cookie(answer: Response, name: str) -> str:
    """Return the name and value of a cookie that the dashboard sets; its name ends with a suffix."""
    found = SimpleCookie()
    for line in answer.get_header_all("set-cookie"):
        found.load(line)
    pairs = (f"{full}={each.value}" for full, each in found.items() if full.startswith(f"{name}_"))
    return next(pairs, "")
