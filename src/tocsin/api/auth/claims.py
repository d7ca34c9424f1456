"""What the claims of a token say about its holder."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tocsin.api.auth.holders import Holder, token_producer
from tocsin.api.auth.roles import Role
from tocsin.api.auth.tokens import VerifiedToken
from tocsin.api.http.problems import NO_ORGANISATION, NO_ROLE, ProblemError
from tocsin.api.settings import AuthSettings
from tocsin.domain.intent import NumericUserId
from tocsin.domain.people.organisations import OrgId


def holder_of(token: VerifiedToken, settings: AuthSettings) -> Holder:
    """Return the producer or operator of a verified token; raise a problem if it has no role here."""
    roles = _roles(token.claims, settings)
    if not roles:
        raise ProblemError(NO_ROLE, f"The token's claim {settings.role_claim!r} has no role in auth.roles.")
    org_id = checked_organisation(token.claims, roles, settings)
    return Holder(producer=token_producer(token.user_id, org_id), roles=roles, org_id=org_id)


def checked_organisation(
    claims: Mapping[str, Any], roles: Sequence[Role], settings: AuthSettings
) -> str | None:
    """Return the organisation of a token with roles; raise a problem if it needs one and has none."""
    org_id = organisation_of(claims, settings)
    if settings.org_scoping and org_id is None:
        given = claim(claims, settings.org_claim)
        if given is not None or not set(roles).intersection(settings.unscoped_roles):
            detail = f"The token's claim {settings.org_claim!r} does not hold an organisation."
            raise ProblemError(NO_ORGANISATION, detail)
    return org_id


def organisation_of(claims: Mapping[str, Any], settings: AuthSettings) -> str | None:
    """Return the organisation of a token; None without scoping, or if its claim is none."""
    if not settings.org_scoping:
        return None
    try:
        return str(msgspec.convert(claim(claims, settings.org_claim), OrgId | NumericUserId))
    except msgspec.ValidationError:
        return None


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the dotted path to a nested one, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def _roles(claims: Mapping[str, Any], settings: AuthSettings) -> tuple[Role, ...]:
    """List the roles that a token's claim stands for; a text is a list of words, as in `scope`."""
    given = claim(claims, settings.role_claim or "")
    values = given.split() if isinstance(given, str) else given
    if not isinstance(values, list):
        return ()
    known = {settings.roles[value] for value in values if isinstance(value, str) and value in settings.roles}
    return tuple(sorted(known))
