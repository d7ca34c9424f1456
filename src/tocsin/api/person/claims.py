"""What the directory takes from the claims of a person's token: their organisation, and attributes.

The identity provider has the last word on both: it replaces what the directory has, and a claim that is gone
takes its attribute with it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from tocsin.api.auth.claims import claim, organisation_of
from tocsin.api.http.requests import ApiRequest
from tocsin.api.settings import AuthSettings
from tocsin.domain.people.attributes import AttributeValue, attribute_faults, value_fault
from tocsin.engine.retention.erase import subject_of
from tocsin.store import audit
from tocsin.store.people import organisations
from tocsin.store.people.organisations import Membership

ACTION = "user.move"

_NOBODY = Membership(None, {})
_log = structlog.stdlib.get_logger(__name__)


async def store_claims(request: ApiRequest) -> None:
    """Store what the settings take from the token of the person who calls; nothing is written if it is known.

    A move from one organisation to another is recorded in the audit.
    """
    settings, claims, user_id = request.services.auth, request.token.claims, request.person
    if not settings.org_scoping and not settings.attribute_claims:
        return
    org_id, attributes = organisation_of(claims, settings), dict(_attributes(claims, settings))
    async with request.pool.acquire() as connection:
        known = await organisations.membership(connection, user_id) or _NOBODY
        if _merged(known, org_id, attributes, settings) == known:
            return
        async with connection.transaction():
            await organisations.add(connection, user_id, request.now())
            known = await organisations.membership(connection, user_id, lock=True) or _NOBODY
            merged = _merged(known, org_id, attributes, settings)
            await organisations.change(connection, user_id, merged, request.now())
            if known.org_id not in {None, merged.org_id}:
                details = {"from": known.org_id, "to": merged.org_id}
                await audit.record(
                    connection,
                    actor="the person's token",
                    action=ACTION,
                    subject=subject_of(user_id),
                    details=details,
                )


def _attributes(claims: Mapping[str, Any], settings: AuthSettings) -> Iterator[tuple[str, AttributeValue]]:
    for name, path in settings.attribute_claims.items():
        value = claim(claims, path)
        if value is None:
            continue
        if message := value_fault(value):
            _log.warning("claim not stored", claim=path, attribute=name, reason=message)
        else:
            yield name, value


def _merged(
    known: Membership, org_id: str | None, attributes: Mapping[str, AttributeValue], settings: AuthSettings
) -> Membership:
    """Return what the directory has, with what a token says; too many attributes stay as they are."""
    others = {
        name: value for name, value in known.attributes.items() if name not in settings.attribute_claims
    }
    merged = {**others, **attributes}
    if merged != known.attributes and (faults := attribute_faults(merged)):
        _log.warning("claims not stored", reason="; ".join(map(str, faults)))
        merged = known.attributes
    return Membership(org_id or known.org_id, merged)
