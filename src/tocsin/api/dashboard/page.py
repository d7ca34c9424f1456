"""A page of the dashboard: its place in the navigation, its right, and its routes."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar, get_type_hints

import msgspec
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from tocsin.api.auth.roles import Right
from tocsin.api.dashboard.access import ACCESS, CSRF_FIELD, PageAccess
from tocsin.api.dashboard.forms import LARGEST_FORM, read_filter, read_form
from tocsin.api.dashboard.responses import Redirect, View, respond
from tocsin.api.dashboard.sessions import PATH
from tocsin.api.http.encoded_slashes import path_text
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import Signature, path_id

Answer: TypeAlias = View | Redirect | ASGIResponse
Handler: TypeAlias = Callable[..., Awaitable[Answer]]
H = TypeVar("H", bound=Handler)


class Page:
    """Declares the routes of a page and collects their handlers.

    The page is listed in the navigation of whoever has its `right`. One that is not `within_organisation` is
    closed to those who are bound to an organisation, as calls of the API are.
    """

    def __init__(self, name: str, title: str, right: Right, *, within_organisation: bool = False) -> None:
        self.name = name
        self.title = title
        self.path = f"{PATH}/{name}"
        self.access = PageAccess(right=right, within_organisation=within_organisation)
        self.handlers: list[HTTPRouteHandler] = []

    def get(self, path: str = "", right: Right | None = None) -> Callable[[H], H]:
        """Declare a handler for reading; its path is below that of the page."""
        return self._declare(HttpMethod.GET, path, right)

    def post(self, path: str, right: Right) -> Callable[[H], H]:
        """Declare a handler of a form; the CSRF token is checked before it is called."""
        return self._declare(HttpMethod.POST, path, right)

    def _declare(self, method: HttpMethod, path: str, right: Right | None) -> Callable[[H], H]:
        access = self.access if right is None else msgspec.structs.replace(self.access, right=right)

        def declare(handler: H) -> H:
            self.handlers.append(route(method, self.path + path, access, handler))
            return handler

        return declare


def route(method: HttpMethod, path: str, access: PageAccess, handler: Handler) -> HTTPRouteHandler:
    """Build the route of a handler.

    It takes the request, the parameters of its path by name, and optionally `query` (the fields of a form
    with GET) or `form` (those of one that was posted), each a struct.
    """
    parts, hints = Signature(handler, path), get_type_hints(handler)
    form: type[msgspec.Struct] | None = hints.get("form")

    async def handle(request: ApiRequest) -> ASGIResponse:
        inputs: dict[str, Any] = {name: path_text(request.path_params[name]) for name in parts.texts}
        inputs |= {name: path_id(request.path_params[name]) for name in parts.ids}
        if parts.query is not None:
            inputs["query"] = read_filter(request, parts.query)
        if form is not None:
            inputs["form"] = await read_form(request, form, CSRF_FIELD)
        return respond(request, await handler(request, **inputs))

    opt: Mapping[str, Any] = {ACCESS: access}
    return HTTPRouteHandler(
        re.sub(r"{(\w+)}", r"{\1:str}", path),
        http_method=method,
        opt=opt,
        request_max_body_size=LARGEST_FORM,
    )(handle)
