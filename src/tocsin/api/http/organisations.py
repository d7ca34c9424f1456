"""Keeps callers that are bound to an organisation to what is its own."""

from typing import TypeVar

import msgspec

from tocsin.api.http.problems import NOT_ALLOWED, NOT_FOUND, ProblemError
from tocsin.api.http.requests import ApiRequest, checked_user_id
from tocsin.store.people.organisations import is_member
from tocsin.wire.cancelling import CancelFilter
from tocsin.wire.filters import DeliveryFilter

Filter = TypeVar("Filter", bound=DeliveryFilter | CancelFilter)


def within_organisation(request: ApiRequest, given: Filter) -> Filter:
    """Return a filter with the organisation of the caller; raise a problem if it asks for another one."""
    own = request.holder.org_id
    if own is None:
        return given
    if given.org_id not in {None, own}:
        raise ProblemError(NOT_ALLOWED, "The caller is bound to another organisation.")
    return msgspec.structs.replace(given, org_id=own)


async def reachable_user(request: ApiRequest, user_id: str) -> str:
    """Return the user id of a path; raise that there is no such user unless the caller's organisation has it.

    Somebody of another organisation and somebody unknown are answered alike.
    """
    checked, own = checked_user_id(user_id), request.holder.org_id
    if own is not None and not await is_member(request.pool, own, checked):
        raise ProblemError(NOT_FOUND, "The organisation has no such user.")
    return checked
