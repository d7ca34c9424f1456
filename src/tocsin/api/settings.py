"""The settings of the API, readable without the packages that serve it."""

from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.api.auth.oidc.settings import OidcSettings, is_safe_origin
from tocsin.api.auth.roles import Role
from tocsin.domain.faults import Fault
from tocsin.domain.people.attributes import MOST_ATTRIBUTES, name_fault

LARGEST_PAGE = 100
SHORTEST_SECRET = 32
_MEGABYTE = 1_048_576
_SLASHES = 2  # of the scheme; a third one would begin a path


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address and the limits of the API; port 0 takes a free one.

    `max_body_bytes` applies to producers; the limit for people's apps is much lower. `max_deliveries` is how
    many deliveries one request may ask for: recipients times channels, summed over a batch. A client that
    opens a connection has `header_seconds` to send the headers of a request, or the connection is closed, and
    `body_seconds` for the body. Beyond `max_connections` further ones wait to be accepted. `fisa_paths` adds
    the paths under `/api/v1/notifications/devices` for apps of fisa.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8470
    max_body_bytes: Annotated[int, Meta(ge=1)] = 4 * _MEGABYTE
    max_deliveries: Annotated[int, Meta(ge=1)] = 100_000
    backlog: Annotated[int, Meta(ge=1)] = 1_024
    max_connections: Annotated[int, Meta(ge=1)] = 4_096
    header_seconds: Annotated[float, Meta(gt=0, le=300)] = 5.0
    body_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    drain_seconds: Annotated[float, Meta(gt=0)] = 20.0
    fisa_paths: bool = False


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operator's pages at `/dashboard` of the API; a session ends after `session_hours`.

    With a `port` of their own they are there alone, and not on the port of the API; `host` is that of the API
    unless it is set. `public_url` is the origin that browsers reach them at: signing in with OpenID Connect
    needs it.
    No page may show them in a frame, except those of the origin `framed_by`: the demo sets it to that of its
    own page.
    """

    enabled: bool = True
    host: Annotated[str, Meta(min_length=1)] | None = None
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    public_url: str | None = None
    session_hours: Annotated[float, Meta(gt=0, le=720)] = 12.0
    framed_by: Annotated[str, Meta(pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?\Z")] | None = None


class ProbesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of `/healthz` and `/readyz` of a worker, relay or gateway; off unless `port` is set.

    With `tocsin serve`, the first worker has the port, and each further process the next one. With a profile
    there is one for all of them. The headers of a request may take `header_seconds`, and an idle
    connection is closed after that.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    header_seconds: Annotated[float, Meta(gt=0, le=300)] = 5.0


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tokens are verified, and whose they are.

    `jwt_secret` accepts HS256 tokens, `jwks_url` RS256 and ES256 ones; without either, no token is accepted.
    `jwt_secret_previous` is accepted beside `jwt_secret` while the secret is being rotated.
    `user_claim` is the claim that holds the user id. With `role_claim`, a token can stand in for an API key:
    `roles` maps the values of that claim to roles.

    With `org_scoping`, API keys can be bound to an organisation, and the claim `org_claim` binds tokens: one
    with roles but without that claim is refused, unless one of its roles is among `unscoped_roles`. A token
    of a person with that claim puts the person into the organisation when a device is registered.
    `attribute_claims` are attributes of the directory by the claims that they are taken from then.
    """

    jwt_secret: str | None = None
    jwt_secret_previous: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    audience: str | None = None
    user_claim: Annotated[str, Meta(min_length=1)] = "sub"
    role_claim: Annotated[str, Meta(min_length=1)] | None = None
    roles: dict[str, Role] = {}
    org_scoping: bool = False
    org_claim: Annotated[str, Meta(min_length=1)] = "org_id"
    unscoped_roles: list[Role] = []
    attribute_claims: dict[str, str] = {}
    leeway_seconds: Annotated[int, Meta(ge=0)] = 30
    jwks_timeout_seconds: Annotated[float, Meta(gt=0)] = 5.0

    def __repr__(self) -> str:
        """Show whether a secret is set, not its value."""
        secret = "set" if self.jwt_secret else "not set"
        return f"AuthSettings(jwt_secret=<{secret}>, jwks_url={self.jwks_url!r}, issuer={self.issuer!r})"


def auth_settings_faults(settings: AuthSettings, *, with_oidc: bool = False) -> Iterator[Fault]:
    """Check the settings for tokens."""
    secrets = {"jwt_secret": settings.jwt_secret, "jwt_secret_previous": settings.jwt_secret_previous}
    for name, secret in secrets.items():
        if secret is not None and len(secret.encode()) < SHORTEST_SECRET:
            yield Fault(
                field=f"auth.{name}",
                code="too_short",
                message=f"must be at least {SHORTEST_SECRET} bytes, or HS256 can be broken by guessing",
            )
    if settings.jwt_secret_previous is not None and settings.jwt_secret is None:
        yield Fault(
            field="auth.jwt_secret_previous",
            code="alone",
            message="is the secret before auth.jwt_secret, which must be set",
        )
    if (settings.role_claim is None) != (not settings.roles):
        given, missing = ("roles", "role_claim") if settings.roles else ("role_claim", "roles")
        message = f"has no effect without auth.{missing}: the claim, and the roles that its values stand for"
        yield Fault(field=f"auth.{given}", code="alone", message=message)
    if settings.role_claim is not None and settings.jwt_secret is None and settings.jwks_url is None:
        message = "has no effect without auth.jwt_secret or auth.jwks_url: no token is accepted"
        yield Fault(field="auth.role_claim", code="alone", message=message)
    has_roles = settings.role_claim is not None or with_oidc
    if settings.unscoped_roles and not (settings.org_scoping and has_roles):
        message = "has no effect without auth.org_scoping and auth.role_claim or oidc.issuer"
        yield Fault(field="auth.unscoped_roles", code="alone", message=message)
    yield from _attribute_faults(settings.attribute_claims)
    if settings.jwks_url is not None and not _is_http(settings.jwks_url):
        yield Fault(field="auth.jwks_url", code="invalid", message="must be an http:// or https:// address")


def dashboard_settings_faults(
    settings: DashboardSettings, http: HttpSettings, oidc: OidcSettings
) -> Iterator[Fault]:
    """Check the settings of the dashboard together with those that it depends on."""
    if settings.host is not None and settings.port is None:
        message = "has no effect without dashboard.port: the pages are at the address of the API"
        yield Fault(field="dashboard.host", code="alone", message=message)
    if settings.port and settings.port == http.port:
        message = "must be another port than http.port; leave it out to serve the pages there"
        yield Fault(field="dashboard.port", code="contradiction", message=message)
    if settings.public_url is not None and not _is_public_origin(settings.public_url):
        message = (
            "must be an origin such as https://tocsin.example.com, without a path (http:// is for localhost "
            "alone)"
        )
        yield Fault(field="dashboard.public_url", code="invalid", message=message)
    if oidc.issuer is not None and not settings.enabled:
        message = "has no effect without the dashboard: dashboard.enabled is false"
        yield Fault(field="oidc.issuer", code="contradiction", message=message)
    elif oidc.issuer is not None and settings.public_url is None:
        message = "is needed with oidc.issuer: browsers come back from the issuer to this address"
        yield Fault(field="dashboard.public_url", code="missing", message=message)


def _is_public_origin(url: str) -> bool:
    return (
        is_safe_origin(url) and url.count("/") - url.endswith("/") == _SLASHES and not set(url) & {"?", "#"}
    )


def _attribute_faults(claims: Mapping[str, str]) -> Iterator[Fault]:
    where = "auth.attribute_claims"
    if len(claims) > MOST_ATTRIBUTES:
        message = f"has {len(claims)} attributes; a person has at most {MOST_ATTRIBUTES}"
        yield Fault(field=where, code="too_many", message=message)
    for name, claim in claims.items():
        if (fault := name_fault(name)) is not None:
            yield Fault(field=where, code="invalid", message=f"{name!r} {fault}")
        if not claim:
            yield Fault(field=where, code="invalid", message=f"{name!r} must have the name of a claim")


def _is_http(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"http", "https"} and bool(parts.netloc)
