"""A person's own choices: what they want to hear of, by which channel."""

from typing import Any

import msgspec
from litestar import Request, get, patch
from litestar.response.base import ASGIResponse

from tocsin.api.auth.access import person_of
from tocsin.api.http.bodies import MOST_FAULTS, decode
from tocsin.api.http.problems import BODY_TOO_LARGE, INVALID_BODY, MALFORMED_JSON, faulty
from tocsin.api.http.replies import reply
from tocsin.api.operations import Operation, PersonMay, Tag, declared
from tocsin.api.services import services_of
from tocsin.catalog.catalog import Catalog
from tocsin.domain.catalog import Channel
from tocsin.domain.faults import Fault
from tocsin.domain.people.preferences import Category, Changes, categories, change_faults
from tocsin.store.people import preferences
from tocsin.store.people.preferences import TooManyCategories

LARGEST_BODY = 65_536

Preferences = dict[str, dict[Channel, bool]]


class CategoryList(msgspec.Struct, frozen=True):
    """What there is to choose from."""

    categories: list[Category]


@get(
    "/v1/preferences",
    opt=declared(
        Operation(
            tag=Tag.PREFERENCES,
            summary="Read one's choices; what is not among them is yes",
            access=PersonMay(),
            answers={200: Preferences},
        )
    ),
)
async def get_preferences(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give the choices of the person who asks."""
    return reply(await preferences.get(services_of(request).pool, person_of(request)))


@patch(
    "/v1/preferences",
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.PREFERENCES,
            summary="Change some of one's choices and leave the others; null goes back to yes",
            access=PersonMay(),
            body=Changes,
            answers={200: Preferences},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"comments": {"push": False, "email": None}, "offers": None},
        )
    ),
)
async def change_preferences(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Lay changes over the choices of the person who asks."""
    services = services_of(request)
    changes = _checked(decode(await request.body(), object))
    result = await preferences.change(services.pool, person_of(request), changes, services.clock())
    if isinstance(result, TooManyCategories):
        message = f"leads to choices on more than {result.most} categories; take some back with null"
        raise faulty(INVALID_BODY, [Fault(field="$", code="too_many", message=message)])
    return reply(result)


@get(
    "/v1/preferences/categories",
    opt=declared(
        Operation(
            tag=Tag.PREFERENCES,
            summary="List the categories there are, with their channels and how far a no counts",
            access=PersonMay(),
            answers={200: CategoryList},
        )
    ),
)
async def list_categories(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give what the catalog lets people choose from."""
    catalog: Catalog | None = request.app.state.catalog
    return reply(CategoryList(categories(catalog.types.values()) if catalog else []))


def _checked(body: object) -> Changes:
    faults = list(change_faults(body))
    if faults:
        raise faulty(INVALID_BODY, faults[:MOST_FAULTS])
    return msgspec.convert(body, Changes)
