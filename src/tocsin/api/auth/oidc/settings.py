"""The settings of signing in with OpenID Connect, readable without the packages that serve it."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from tocsin.api.auth.roles import Role
from tocsin.domain.faults import Fault

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signing in to the dashboard by OpenID Connect; off unless `issuer` is set.

    The secret of the client is `client_secret` or the content of `client_secret_file`, which is read at each
    sign-in; a public client has none. `viewers`, `operators` and `admins` are values of the claim
    `role_claim`: whoever has one of them gets that role, the highest of several. A session ends after
    `session_hours`, and the issuer is asked again. `scopes` are asked for besides `openid`, `profile` and
    `email`.
    """

    issuer: str | None = None
    client_id: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    client_secret: Annotated[str, Meta(min_length=1)] | None = None
    client_secret_file: Path | None = None
    label: Annotated[str, Meta(min_length=1, max_length=40)] = "single sign-on"
    scopes: list[Annotated[str, Meta(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$", examples=["groups"])]] = []
    role_claim: Annotated[str, Meta(min_length=1)] = "groups"
    viewers: list[Annotated[str, Meta(min_length=1)]] = []
    operators: list[Annotated[str, Meta(min_length=1)]] = []
    admins: list[Annotated[str, Meta(min_length=1)]] = []
    name_claim: Annotated[str, Meta(min_length=1)] = "preferred_username"
    session_hours: Annotated[float, Meta(gt=0, le=24)] = 8.0
    leeway_seconds: Annotated[int, Meta(ge=0, le=300)] = 60
    timeout_seconds: Annotated[float, Meta(gt=0, le=30)] = 5.0
    ca_file: Path | None = None

    @property
    def roles(self) -> dict[Role, frozenset[str]]:
        """The values of the claim by the role that they stand for, the highest role first."""
        return {
            Role.ADMIN: frozenset(self.admins),
            Role.OPERATOR: frozenset(self.operators),
            Role.VIEWER: frozenset(self.viewers),
        }

    def role_of(self, values: Collection[str]) -> Role | None:
        """Return the highest role that any value of the claim stands for."""
        return next((role for role, wanted in self.roles.items() if wanted.intersection(values)), None)

    def __repr__(self) -> str:
        """Show whether a secret is set, not its value."""
        secret = "set" if self.client_secret or self.client_secret_file else "not set"
        return f"OidcSettings(issuer={self.issuer!r}, client_id={self.client_id!r}, client_secret=<{secret}>)"


def oidc_settings_faults(settings: OidcSettings) -> Iterator[Fault]:
    """Check the settings for signing in with OpenID Connect."""
    if settings.issuer is None:
        given = msgspec.structs.asdict(OidcSettings())
        for name in ("client_id", "client_secret", "client_secret_file", "viewers", "operators", "admins"):
            if getattr(settings, name) != given[name]:
                yield Fault(field=f"oidc.{name}", code="alone", message="has no effect without oidc.issuer")
        return
    parts = urlsplit(settings.issuer)
    if not is_safe_origin(settings.issuer) or parts.query or parts.fragment:
        message = "must be an https:// address without a query (http:// is for localhost alone)"
        yield Fault(field="oidc.issuer", code="invalid", message=message)
    if settings.client_id is None:
        message = "is needed with oidc.issuer: the issuer shows it where the client is registered"
        yield Fault(field="oidc.client_id", code="missing", message=message)
    if settings.client_secret is not None and settings.client_secret_file is not None:
        message = "contradicts oidc.client_secret; set one of them"
        yield Fault(field="oidc.client_secret_file", code="contradiction", message=message)
    if not any(settings.roles.values()):
        message = (
            f"is needed with oidc.issuer, or oidc.operators or oidc.viewers: the values of the claim "
            f"{settings.role_claim!r} whose owners may sign in. Nobody could"
        )
        yield Fault(field="oidc.admins", code="missing", message=message)


def is_safe_origin(url: str) -> bool:
    """Return whether a URL has a host that is reached by HTTPS, or is this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = not parts.username and not parts.password and url.isascii() and url.isprintable()
    is_known = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return bool(host) and is_plain and is_known and " " not in url
