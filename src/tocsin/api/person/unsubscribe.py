"""Unsubscribing by the link in a mail: a page for people, one click for mail services."""

import html
from typing import Literal

import msgspec
from litestar.response.base import ASGIResponse

from tocsin.api.http.problems import NOT_FOUND, UNAVAILABLE, ProblemError, fault_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PUBLIC, Routes, Tag
from tocsin.domain.people.unsubscribe import Unsubscription, read
from tocsin.store.people import preferences

routes = Routes(Tag.PREFERENCES)

LARGEST_BODY = 4_096

_HTML = "text/html"
_FIELD, _VALUE = "List-Unsubscribe", "One-Click"
# The address of the page is a credential: nothing is loaded, cached, indexed, or sent as a referrer.
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
    """The form that a mail service posts for a person who clicked."""

    list_unsubscribe: Literal["One-Click"]


@routes(
    "GET /v1/unsubscribe/{token}",
    "Show a page with a button to unsubscribe; link scanners follow it, so it changes nothing",
    PUBLIC,
    problems=(NOT_FOUND,),
    answer=str,
    answer_type=_HTML,
)
async def ask_to_unsubscribe(request: ApiRequest, token: str) -> ASGIResponse:
    """Return the page with the button."""
    return _page("Unsubscribe?", _QUESTION, _leaving(request, token))


@routes(
    "POST /v1/unsubscribe/{token}",
    "Unsubscribe from the category of the link; repeating it changes nothing",
    PUBLIC,
    problems=(NOT_FOUND, UNAVAILABLE),
    answer=str,
    answer_type=_HTML,
    body=OneClick,
    body_type="application/x-www-form-urlencoded",
    max_body_bytes=LARGEST_BODY,
)
async def unsubscribe(request: ApiRequest, token: str) -> ASGIResponse:
    """Store the choice that the link was signed for."""
    leaving = _leaving(request, token)
    await _refuse_other_bodies(request)
    await preferences.refuse(request.pool, leaving.user_id, leaving.category, leaving.channel, request.now())
    return _page("Unsubscribed", _DONE, leaving)


def _leaving(request: ApiRequest, token: str) -> Unsubscription:
    secret = request.services.unsubscribe.secret
    leaving = read(secret, token) if secret else None
    if leaving is None:
        raise ProblemError(NOT_FOUND, "This link is not complete or was not made here.")
    return leaving


async def _refuse_other_bodies(request: ApiRequest) -> None:
    """Accept an empty body, or the form that RFC 8058 has mail services post."""
    if await request.body() and (await request.form()).get(_FIELD) != _VALUE:
        raise fault_problem(_FIELD, "invalid", f"must be {_VALUE}, sent as a form")


def _page(title: str, content: str, leaving: Unsubscription) -> ASGIResponse:
    filled = content.format(category=html.escape(leaving.category))
    return ASGIResponse(
        body=_PAGE.format(title=title, content=filled).encode(), headers=_HEADERS, media_type=_HTML
    )
