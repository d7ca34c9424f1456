"""Who an ID token is of, and which role they have here."""

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from tocsin.api.auth.claims import claim
from tocsin.api.auth.holders import LONGEST_PRODUCER
from tocsin.api.auth.oidc.errors import NoRoleError, SignInRefusedError
from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.auth.roles import Role

LONGEST_SUBJECT = 255
LONGEST_NAME = 100


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who signed in at the issuer and has a role here, by the `role_values` of their claim."""

    subject: str
    name: str
    role: Role
    role_values: list[str]
    claims: Mapping[str, Any]
    id_token: str

    def __repr__(self) -> str:
        """Show neither the token nor its claims."""
        return f"Identity({self.subject!r}, {self.role!r})"


def identity_of(claims: Mapping[str, Any], id_token: str, settings: OidcSettings) -> Identity:
    """Return who verified claims are of; raise NoRoleError if none of their values stands for a role."""
    subject = claims["sub"]
    if not (isinstance(subject, str) and 0 < len(subject) <= LONGEST_SUBJECT and subject.isprintable()):
        raise SignInRefusedError("The ID token has no subject that can be used (sub).")
    name = _shown_name(claim(claims, settings.name_claim), subject)
    values = _values(claims, settings.role_claim)
    role = settings.role_of(values)
    if role is None:
        raise NoRoleError(subject, name)
    known = sorted(values & frozenset[str]().union(*settings.roles.values()))
    return Identity(
        subject=subject, name=name, role=role, role_values=known, claims=claims, id_token=id_token
    )


def oidc_producer(subject: str) -> str:
    """Return the producer of somebody who signed in: it owns idempotency keys, and no API key has it.

    A long name is replaced by its hash.
    """
    named = f"oidc:{quote(subject, safe='')}"
    if len(named) <= LONGEST_PRODUCER:
        return named
    return f"oidc#{hashlib.sha256(named.encode()).hexdigest()}"


def _values(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the values of a claim; a text is one value, since names of groups may have spaces."""
    given = claim(claims, name)
    if name == "email" and claims.get("email_verified") is not True:
        # Anybody can enter the address of somebody else until the issuer has checked it.
        return frozenset()
    values = [given] if isinstance(given, str) else given
    return frozenset(v for v in values if isinstance(v, str)) if isinstance(values, list) else frozenset()


def _shown_name(given: object, subject: str) -> str:
    """Return a name that can be shown and recorded: without control and formatting characters."""
    text = given if isinstance(given, str) else ""
    shown = "".join(letter for letter in text[: 4 * LONGEST_NAME] if unicodedata.category(letter)[0] != "C")
    return " ".join(shown.split())[:LONGEST_NAME] or subject[:LONGEST_NAME]
