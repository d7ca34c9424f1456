"""A person's webhook endpoints: register, list, retire, change the secret."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, assert_never
from uuid import UUID

import msgspec
from litestar import Request, delete, get, post
from litestar.response.base import ASGIResponse
from msgspec import Meta

from tocsin.api.auth.roles import Right
from tocsin.api.http.bodies import Checked, decode
from tocsin.api.http.problems import (
    BODY_TOO_LARGE,
    INVALID_BODY,
    INVALID_QUERY,
    MALFORMED_JSON,
    NOT_FOUND,
    ProblemError,
    faulty,
)
from tocsin.api.http.queries import read_path, read_path_id, read_query
from tocsin.api.http.replies import reply
from tocsin.api.operations import KeyMay, Operation, Tag, declared
from tocsin.api.services import services_of
from tocsin.domain.faults import Fault
from tocsin.domain.intent import UserId
from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.webhook.signing import new_secret, rotated
from tocsin.store.people import endpoints
from tocsin.store.people.endpoints import MOST_ACTIVE, AlreadyActive, EndpointRow, TooManyEndpoints

LARGEST_BODY = 65_536

EndpointUrl = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^[!-~]+\Z")]

# Whether an address may be private is a setting; a body is read without any.
_shape = Guard(allow_private=True)
_ALLOW_PRIVATE = "TOCSIN_WEBHOOK__ALLOW_PRIVATE_ADDRESSES"
_NO_ENDPOINT = "This person has no such endpoint."


def callable_url(url: str) -> str | None:
    """Ask for a URL that can be called at all."""
    fault = _shape.fault(url)
    return f"must be a URL such as https://hooks.example.com/tocsin; it {fault}" if fault else None


class AddWebhook(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a person wants to be told."""

    checks: ClassVar = {"url": callable_url}

    url: EndpointUrl


class WhichWebhooks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of a person's endpoints to list."""

    include_retired: bool = False


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint."""

    endpoint_id: UUID
    user_id: str
    url: str
    notification_count: int
    last_sent_at: datetime | None
    registered_at: datetime
    retired_at: datetime | None
    retired_reason: str | None


class WebhookWithSecret(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint and the secret it verifies with, which is shown this once."""

    endpoint_id: UUID
    user_id: str
    url: str
    secret: str
    registered_at: datetime

    def __repr__(self) -> str:
        """Name the endpoint and leave the secret out."""
        return f"WebhookWithSecret({self.endpoint_id})"


class WebhookList(msgspec.Struct, frozen=True):
    """A person's endpoints, the active first."""

    webhooks: list[Webhook]


@post(
    "/v1/users/{user_id:str}/webhooks",
    status_code=201,
    request_max_body_size=LARGEST_BODY,
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary=f"Register one of at most {MOST_ACTIVE} webhook endpoints; its secret is shown this once",
            access=KeyMay(Right.CHANGE_USERS),
            body=AddWebhook,
            answers={201: WebhookWithSecret},
            problems=(MALFORMED_JSON, BODY_TOO_LARGE, INVALID_BODY),
            example={"url": "https://hooks.example.com/tocsin"},
        )
    ),
)
async def add_webhook(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Give a person an endpoint."""
    services = services_of(request)
    wanted = decode(await request.body(), AddWebhook)
    # Where a name leads is judged at each send: it may lead elsewhere by then.
    guard = Guard(allow_private=services.webhook.allow_private_addresses)
    if fault := guard.fault(wanted.url):
        message = f"{fault}; register an address of the public Internet, or set {_ALLOW_PRIVATE}=true"
        raise faulty(INVALID_BODY, [Fault(field="url", code="address_refused", message=message)])
    secret = new_secret()
    added = await endpoints.add(services.pool, _user_id(request), wanted.url, secret, services.clock())
    match added:
        case EndpointRow():
            return reply(_with_secret(added, secret), 201)
        case AlreadyActive():
            message = f"is registered already, as {added.id}; rotate that if its secret is lost"
            raise faulty(INVALID_BODY, [Fault(field="url", code="repeated", message=message)])
        case TooManyEndpoints():
            message = f"would be one too many: a person has at most {MOST_ACTIVE} endpoints; delete one first"
            raise faulty(INVALID_BODY, [Fault(field="url", code="too_many", message=message)])
        case _:
            assert_never(added)


@get(
    "/v1/users/{user_id:str}/webhooks",
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary="List the webhook endpoints of a person, without their secrets",
            access=KeyMay(Right.SEE_USERS),
            query=WhichWebhooks,
            answers={200: WebhookList},
            problems=(INVALID_QUERY,),
        )
    ),
)
async def list_webhooks(request: Request[Any, Any, Any]) -> ASGIResponse:
    """List a person's endpoints."""
    which = read_query(request, WhichWebhooks)
    rows = await endpoints.of_user(
        services_of(request).pool, _user_id(request), include_retired=which.include_retired
    )
    return reply(WebhookList([_shown(row) for row in rows]))


@delete(
    "/v1/users/{user_id:str}/webhooks/{endpoint_id:str}",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary="Retire a webhook endpoint; doing it again changes nothing",
            access=KeyMay(Right.CHANGE_USERS),
            answers={200: Webhook},
            problems=(NOT_FOUND,),
        )
    ),
)
async def retire_webhook(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Send nothing more to an endpoint."""
    services = services_of(request)
    endpoint_id = read_path_id(request, "endpoint_id")
    row = await endpoints.retire(services.pool, _user_id(request), endpoint_id, services.clock())
    if row is None:
        raise ProblemError(NOT_FOUND, _NO_ENDPOINT)
    return reply(_shown(row))


@post(
    "/v1/users/{user_id:str}/webhooks/{endpoint_id:str}/rotate",
    status_code=200,
    opt=declared(
        Operation(
            tag=Tag.USERS,
            summary="Give a webhook endpoint a new secret; the one before signs for a day more",
            access=KeyMay(Right.CHANGE_USERS),
            answers={200: WebhookWithSecret},
            problems=(NOT_FOUND,),
        )
    ),
)
async def rotate_webhook(request: Request[Any, Any, Any]) -> ASGIResponse:
    """Change the secret of an active endpoint."""
    services = services_of(request)
    secret, now = new_secret(), services.clock()
    row = await endpoints.change_secret(
        services.pool,
        _user_id(request),
        read_path_id(request, "endpoint_id"),
        lambda present: rotated(present, secret, now),
    )
    if row is None:
        raise ProblemError(NOT_FOUND, _NO_ENDPOINT)
    return reply(_with_secret(row, secret))


def _user_id(request: Request[Any, Any, Any]) -> str:
    try:
        return msgspec.convert(read_path(request, "user_id"), UserId)
    except msgspec.ValidationError:
        raise ProblemError(NOT_FOUND, "No user has such an id.") from None


def _shown(row: EndpointRow) -> Webhook:
    fields = msgspec.structs.asdict(row)
    return Webhook(endpoint_id=fields.pop("id"), **fields)


def _with_secret(row: EndpointRow, secret: str) -> WebhookWithSecret:
    return WebhookWithSecret(
        endpoint_id=row.id,
        user_id=row.user_id,
        url=row.url,
        secret=secret,
        registered_at=row.registered_at,
    )
