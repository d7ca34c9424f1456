"""The endpoints of people at SNS: what a delivery function asks Tocsin for, and what it reports."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Meta

from tocsin.domain.intent import Moment, NumericUserId, TypeName, UserId
from tocsin.domain.people.organisations import OrgId

FIND_PATH = "/v1/internal/endpoints/find"
RETIRE_PATH = "/v1/internal/endpoints/retire"
LARGEST_FIND = 100

Skipped: TypeAlias = Literal["opted_out", "not_your_organisation"]
EndpointArn = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^[!-~]+\Z")]
EndpointCode = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+\Z")]


class FindEndpoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The people to be reached, and the type of what they are to get: they may have opted out of it.

    Where organisations are kept apart, people of another one than `org_id` are left out.
    """

    user_ids: Annotated[list[UserId | NumericUserId], Meta(min_length=1, max_length=LARGEST_FIND)]
    type: TypeName | None = None
    org_id: OrgId | None = None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An active endpoint whose owner wants pushes on it."""

    endpoint_arn: str
    platform: str
    device_id: UUID
    last_seen_at: datetime

    def __repr__(self) -> str:
        """Show the device, not the ARN."""
        return f"Endpoint({self.device_id})"


class PersonEndpoints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The endpoints of one person, none if they opted out or are of another organisation.

    `unreadable` is the number of those left out because no data key of the server decrypts them.
    """

    user_id: str
    endpoints: list[Endpoint] = []
    skipped: Skipped | None = None
    unreadable: int = 0


class FoundEndpoints(msgspec.Struct, frozen=True):
    """The people asked for, each once, in their order."""

    people: list[PersonEndpoints]


class RetireEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An endpoint that SNS no longer delivers to, and the code that it answered.

    `last_seen_at` as it was found: an endpoint that the app has registered again since then is kept.
    """

    endpoint_arn: EndpointArn
    code: EndpointCode
    last_seen_at: Moment | None = None

    def __repr__(self) -> str:
        """Show the code, not the ARN."""
        return f"RetireEndpoint(code={self.code!r})"


class RetiredEndpoint(msgspec.Struct, frozen=True):
    """Whether this call retired the endpoint; not if it is unknown, retired already or registered again."""

    retired: bool
