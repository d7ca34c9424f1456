"""Who calls as a producer or operator: the holder of an API key, or of a token with roles."""

import hashlib
from urllib.parse import quote
from uuid import UUID

import msgspec

from tocsin.api.auth.roles import RIGHTS, Right, Role

TOKEN_PREFIX = "jwt:"  # noqa: S105 - begins the name of a producer
"""Begins the name of a producer that a token identifies, so that it is never the one of an API key."""
LONGEST_PRODUCER = 100


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A producer or operator with its roles; `key_id` is that of its API key, None if it has a token.

    `name` is that of a person who signed in to the dashboard with OpenID Connect. One with an `org_id` is
    bound to that organisation: it reaches and sees nothing of another.
    """

    producer: str
    roles: tuple[Role, ...]
    key_id: UUID | None = None
    org_id: str | None = None
    name: str | None = None

    def may(self, right: Right) -> bool:
        """Return whether one of the roles has a right."""
        return any(right in RIGHTS[role] for role in self.roles)

    def may_see(self, producer: str, org_id: str | None) -> bool:
        """Return whether the holder may see the notifications of a producer for an organisation."""
        is_within = self.org_id in {None, org_id}
        return is_within and (producer == self.producer or self.may(Right.SEE_ALL))

    @property
    def actor(self) -> str:
        """The holder as the audit shows it."""
        credential = f"key {self.key_id}" if self.key_id else "token"
        if self.name is not None:
            credential = f"signed in as {self.name}"
        bound = f", organisation {self.org_id}" if self.org_id is not None else ""
        return f"{self.producer} ({credential}{bound})"

    def lacks(self, right: Right) -> str:
        """Return the sentence that refuses a call for want of a right."""
        credential = "key" if self.key_id else "token" if self.name is None else "session"
        noun = "role" if len(self.roles) == 1 else "roles"
        return f"A {credential} with the {noun} {' and '.join(self.roles)} may not {right}."


def token_producer(user_id: str, org_id: str | None) -> str:
    """Return the producer of a token, a different one for each organisation: it owns idempotency keys.

    The organisation is quoted, so that no two pairs have one name; a long name is replaced by its hash.
    """
    if org_id is None:
        return f"{TOKEN_PREFIX}{user_id}"
    named = f"jwt@{quote(org_id, safe='')}:{user_id}"
    if len(named) <= LONGEST_PRODUCER:
        return named
    return f"jwt#{hashlib.sha256(named.encode()).hexdigest()}"
