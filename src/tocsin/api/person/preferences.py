"""A person's preferences: which categories they want, by which channel."""

import msgspec

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import MOST_FAULTS, decode
from tocsin.api.http.organisations import reachable_user
from tocsin.api.http.problems import INVALID_BODY, NOT_FOUND, fault_problem, faults_problem
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PERSON, PERSON_BODY_BYTES, Routes, Tag
from tocsin.domain.people.preferences import Category, Changes, categories, change_faults
from tocsin.store.people import preferences
from tocsin.store.people.preferences import TooManyCategories
from tocsin.wire.people import Preferences

EXAMPLE = {"comments": {"push": False, "email": None}, "offers": None}

routes = Routes(Tag.PREFERENCES)


class CategoryList(msgspec.Struct, frozen=True):
    """The categories a person can choose from."""

    categories: list[Category]


@routes(
    "GET /v1/users/{user_id}/preferences",
    "Read a user's choices; a missing choice means yes",
    Right.SEE_USERS,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def get_preferences_of_user(request: ApiRequest, user_id: str) -> Preferences:
    """Return the choices of a user to a service that may read the directory."""
    return await preferences.get(request.pool, await reachable_user(request, user_id))


@routes(
    "PATCH /v1/users/{user_id}/preferences",
    "Change some of a user's choices and keep the others; null resets a choice to yes",
    Right.CHANGE_USERS,
    problems=(NOT_FOUND,),
    body=Changes,
    example=EXAMPLE,
    max_body_bytes=PERSON_BODY_BYTES,
    within_organisation=True,
)
async def change_preferences_of_user(request: ApiRequest, user_id: str) -> Preferences:
    """Merge changes into the choices of a user, for a service that may write the directory."""
    return await _change(request, await reachable_user(request, user_id))


@routes("GET /v1/preferences", "Read one's choices; a missing choice means yes", PERSON)
async def get_preferences(request: ApiRequest) -> Preferences:
    """Return the choices of the person who calls."""
    return await preferences.get(request.pool, request.person)


@routes(
    "PATCH /v1/preferences",
    "Change some of one's choices and keep the others; null resets a choice to yes",
    PERSON,
    body=Changes,
    example=EXAMPLE,
)
async def change_preferences(request: ApiRequest) -> Preferences:
    """Merge changes into the choices of the person who calls."""
    return await _change(request, request.person)


async def _change(request: ApiRequest, user_id: str) -> Preferences:
    given = decode(await request.body(), object)
    if faults := list(change_faults(given)):
        raise faults_problem(INVALID_BODY, *faults[:MOST_FAULTS])
    changes = msgspec.convert(given, Changes)
    result = await preferences.change(request.pool, user_id, changes, request.now())
    if isinstance(result, TooManyCategories):
        message = f"leads to choices on more than {result.most} categories; take some back with null"
        raise fault_problem("$", "too_many", message)
    return result


@routes(
    "GET /v1/preferences/categories",
    "List the categories of the catalog, with their channels and which types a no applies to",
    PERSON,
)
async def list_categories(request: ApiRequest) -> CategoryList:
    """List the categories of the catalog."""
    return CategoryList(categories(request.catalog.types.values()) if request.catalog else [])
