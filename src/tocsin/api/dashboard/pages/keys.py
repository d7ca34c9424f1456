"""API keys: listing, creating, rotating and revoking them."""

from uuid import UUID

from tocsin.api.auth.roles import Right, Role
from tocsin.api.bodies import ApiKey, CreateKey, RotateKey
from tocsin.api.dashboard.page import Page
from tocsin.api.dashboard.responses import Redirect, View
from tocsin.api.http.problems import ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.operator.admin import create_api_key, find_keys, replace_api_key, revoke_api_key

page = Page("keys", "Keys", Right.KEYS)


@page.get()
async def list_keys(request: ApiRequest) -> View:
    """Show every key without its secret."""
    return await _list(request)


@page.post("", Right.KEYS)
async def create(request: ApiRequest, form: CreateKey) -> View:
    """Create a key and show its secret, this once."""
    try:
        made = await create_api_key(request, form)
    except ProblemError as error:
        return await _list(request, form, error)
    return _created(made)


@page.post("/{key_id}/rotate", Right.KEYS)
async def rotate(request: ApiRequest, key_id: UUID, form: RotateKey) -> View:
    """Replace a key and show the secret of the new one, this once."""
    rotated = await replace_api_key(request, str(key_id), form)
    return _created(rotated.created, rotated.replaced)


@page.post("/{key_id}/revoke", Right.KEYS)
async def revoke(request: ApiRequest, key_id: UUID) -> Redirect:
    """Revoke a key and those that it replaced."""
    revoked = await revoke_api_key(request, key_id)
    notice = f"The key of {revoked.producer} that ends in {revoked.hint} is revoked."
    return Redirect(page.path, notice=notice)


async def _list(
    request: ApiRequest, form: CreateKey | None = None, error: ProblemError | None = None
) -> View:
    context = {
        "keys": await find_keys(request),
        "roles": list(Role),
        "own": request.holder.key_id,
        "may_bind": request.services.auth.org_scoping,
        "form": form,
        "fault": error.problem.detail if error else None,
    }
    return View("keys/index.html", context, status=error.problem.status if error else 200)


def _created(made: ApiKey, replaced: ApiKey | None = None) -> View:
    return View("keys/created.html", {"made": made, "replaced": replaced}, status=201)
