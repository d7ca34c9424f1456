"""Leaving a category of e-mail by the link in a mail: a page for people, one click for mail services."""

import html
from typing import Any, Literal

import msgspec
from litestar import Request, get, post
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    NOT_FOUND,
    UNAVAILABLE,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path
from tocsin.api.operations import AnyoneMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.people.unsubscribe import Unsubscription, read
from tocsin.store.people import preferences

LARGEST_BODY = 4_096

_HTML = "text/html"
_FIELD, _VALUE = "List-Unsubscribe", "One-Click"
# Nothing is loaded, nothing is kept, and the address, which is a right to act, is told to nobody.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex, nofollow">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
{content}
</body>
</html>
"""
_QUESTION = """\
<p>You will get no more e-mail about <b>{category}</b>.</p>
<form method="post">
<input type="hidden" name="List-Unsubscribe" value="One-Click">
<button>Unsubscribe</button>
</form>"""
_DONE = """\
<p>You get no more e-mail about <b>{category}</b>.</p>
<p>The settings of the app turn it on again.</p>"""


class OneClick(msgspec.Struct, frozen=True, rename={"list_unsubscribe": _FIELD}):
    """What a mail service posts for a person who clicked."""

    list_unsubscribe: Literal["One-Click"]


@get(
    "/v1/unsubscribe/{token:str}",
    opt=declared(
        Operation(
            tag=Tag.PREFERENCES,
            summary="Show a page that asks whether to leave; scanners follow links, so it changes nothing",
            access=AnyoneMay(),
            answers={200: str},
            answer_type="text/html",
            problems=(NOT_FOUND,),
        )
    ),
)
async def ask_to_unsubscribe(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Show the page with the button."""
    return _page("Unsubscribe?", _QUESTION, _leaving(request))


@post(
    "/v1/unsubscribe/{token:str}",
    status_code=200,
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.PREFERENCES,
            summary="Leave what the link is for; doing it again changes nothing",
            access=AnyoneMay(),
            body=OneClick,
            body_type="application/x-www-form-urlencoded",
            answers={200: str},
            answer_type="text/html",
            problems=(NOT_FOUND, BODY_TOO_LARGE, INVALID_BODY, UNAVAILABLE),
        )
    ),
)
async def unsubscribe(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Store the choice that the link was signed for."""
    leaving = _leaving(request)
    await _refuse_other_bodies(request)
    services = services_of(request)
    await preferences.refuse(
        services.pool, leaving.user_id, leaving.category, leaving.channel, services.clock()
    )
    return _page("Unsubscribed", _DONE, leaving)


def _leaving(request: Request[Any, Any, Any]) -> Unsubscription:
    secret = services_of(request).unsubscribe.secret
    leaving = read(secret, read_path(request, "token")) if secret else None
    if leaving is None:
        raise ProblemError(NOT_FOUND, "This link is not complete or was not made here.")
    return leaving


async def _refuse_other_bodies(request: Request[Any, Any, Any]) -> None:
    """Take an empty body, or the form that RFC 8058 has mail services post."""
    if not await request.body():
        return
    form = await request.form()
    if form.get(_FIELD) != _VALUE:
        fault = Fault(field=_FIELD, code="invalid", message=f"must be {_VALUE}, sent as a form")
        raise faulty(INVALID_BODY, [fault])


def _page(title: str, content: str, leaving: Unsubscription) -> ASGIResponse:
    filled = content.format(category=html.escape(leaving.category))
    return ASGIResponse(
        body=_PAGE.format(title=title, content=filled).encode(), headers=_HEADERS, media_type=_HTML
    )
