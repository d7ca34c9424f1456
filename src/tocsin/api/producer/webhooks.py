"""The webhook endpoints of a user: register, list, retire, rotate the secret."""

from datetime import timedelta
from typing import Annotated, ClassVar, assert_never
from uuid import UUID

from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.conversion import copy_fields
from tocsin.api.http.organisations import reachable_user
from tocsin.api.http.problems import NOT_FOUND, UNAVAILABLE, ProblemError, fault_problem
from tocsin.api.http.queries import Query
from tocsin.api.http.requests import ApiRequest
from tocsin.api.producer.webhook_secrets import (
    RotateWebhook,
    Webhook,
    WebhookList,
    WebhookWithSecret,
    rotate_secret,
)
from tocsin.api.routes import PERSON_BODY_BYTES, Routes, Tag
from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.webhook.signing import new_secret
from tocsin.store.people.endpoints import webhook as endpoints
from tocsin.store.people.endpoints.webhook import (
    MOST_ACTIVE,
    AlreadyActive,
    CountedEndpoint,
    EndpointRow,
    TooManyEndpoints,
)
from tocsin.store.secrets.sealing import SealedError
from tocsin.wire.checks import Checked

EndpointUrl = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^[!-~]+\Z")]

routes = Routes(Tag.USERS)

# Whether an address may be private is a setting; a body is decoded without settings.
_shape = Guard(allow_private=True)
_ALLOW_PRIVATE = "TOCSIN_WEBHOOK__ALLOW_PRIVATE_ADDRESSES"


def callable_url(url: str) -> str | None:
    """Require a URL that can be called."""
    fault = _shape.fault(url)
    return f"must be a URL such as https://hooks.example.com/tocsin; it {fault}" if fault else None


class AddWebhook(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The URL of a new endpoint."""

    checks: ClassVar = {"url": callable_url}

    url: EndpointUrl


class WhichWebhooks(Query, frozen=True, kw_only=True):
    """Which endpoints of a user to list."""

    include_retired: bool = False


_A_DAY = RotateWebhook()


@routes(
    "POST /v1/users/{user_id}/webhooks",
    f"Register one of at most {MOST_ACTIVE} webhook endpoints; its secret is shown this once",
    Right.CHANGE_USERS,
    status=201,
    problems=(NOT_FOUND,),
    example={"url": "https://hooks.example.com/tocsin"},
    max_body_bytes=PERSON_BODY_BYTES,
    within_organisation=True,
)
async def add_webhook(request: ApiRequest, user_id: str, body: AddWebhook) -> WebhookWithSecret:
    """Register an endpoint of a user."""
    # The addresses that a host name resolves to are checked at each send: they may change.
    guard = Guard(allow_private=request.services.webhook.allow_private_addresses)
    if fault := guard.fault(body.url):
        message = f"{fault}; register an address of the public Internet, or set {_ALLOW_PRIVATE}=true"
        raise fault_problem("url", "address_refused", message)
    secret = new_secret()
    added = await endpoints.add(
        request.pool,
        await reachable_user(request, user_id),
        body.url,
        secret,
        request.now(),
        request.services.data_keys,
    )
    match added:
        case EndpointRow():
            return copy_fields(WebhookWithSecret, added, endpoint_id=added.id, secret=secret)
        case AlreadyActive():
            message = f"is registered already, as {added.id}; rotate that if its secret is lost"
            raise fault_problem("url", "repeated", message)
        case TooManyEndpoints():
            message = f"would be one too many: a person has at most {MOST_ACTIVE} endpoints; delete one first"
            raise fault_problem("url", "too_many", message)
        case _:
            assert_never(added)


@routes(
    "GET /v1/users/{user_id}/webhooks",
    "List the webhook endpoints of a user, without their secrets",
    Right.SEE_USERS,
    problems=(NOT_FOUND,),
    within_organisation=True,
)
async def list_webhooks(request: ApiRequest, user_id: str, query: WhichWebhooks) -> WebhookList:
    """List the endpoints of a user."""
    rows = await endpoints.of_user(
        request.pool, await reachable_user(request, user_id), include_retired=query.include_retired
    )
    return WebhookList([_webhook(row) for row in rows])


@routes(
    "DELETE /v1/users/{user_id}/webhooks/{endpoint_id}",
    "Retire a webhook endpoint; repeating it changes nothing",
    Right.CHANGE_USERS,
    within_organisation=True,
)
async def retire_webhook(request: ApiRequest, user_id: str, endpoint_id: UUID) -> Webhook:
    """Stop sending to an endpoint."""
    row = await endpoints.retire(
        request.pool, await reachable_user(request, user_id), endpoint_id, request.now()
    )
    if row is None:
        raise _no_endpoint()
    return _webhook(row)


@routes(
    "POST /v1/users/{user_id}/webhooks/{endpoint_id}/rotate",
    "Replace the secret of a webhook endpoint; the old one signs too until the overlap ends",
    Right.CHANGE_USERS,
    example={"overlap_seconds": 86_400},
    within_organisation=True,
)
async def rotate_webhook(
    request: ApiRequest, user_id: str, endpoint_id: UUID, body: RotateWebhook = _A_DAY
) -> WebhookWithSecret:
    """Replace the secret of an active endpoint."""
    overlap = timedelta(seconds=body.overlap_seconds)
    try:
        changed = await rotate_secret(
            request.pool,
            await reachable_user(request, user_id),
            endpoint_id,
            overlap,
            request.now(),
            actor=request.actor,
            keys=request.services.data_keys,
        )
    except SealedError as error:
        raise ProblemError(UNAVAILABLE, f"The secret cannot be read: {error}.") from None
    if changed is None:
        raise _no_endpoint()
    return changed


def _no_endpoint() -> ProblemError:
    return ProblemError(NOT_FOUND, "This person has no such endpoint.")


def _webhook(row: CountedEndpoint) -> Webhook:
    return copy_fields(Webhook, row, endpoint_id=row.id)
