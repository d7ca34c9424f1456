"""The directory of users, their devices and their preferences."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, TypeAlias, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.domain.intent import EmailAddress, NumericUserId, UserId
from tocsin.domain.people.attributes import Attributes, attribute_faults
from tocsin.domain.people.device_tokens import USUAL_KIND, TokenKind
from tocsin.domain.people.devices import DeviceToken, Platform, ProviderName
from tocsin.domain.people.organisations import OrgId
from tocsin.wire.checks import Checked, ShortText, known_locale, known_timezone, not_blank, readable_window
from tocsin.wire.values.open_values import CHANNELS, documented

LARGEST_BULK = 1_000

GmtOffset = Annotated[int, Meta(ge=-43_200, le=50_400)]

# Category to channel to yes or no; a missing choice means yes.
Preferences: TypeAlias = dict[str, dict[Annotated[str, CHANNELS], bool]]
# None resets a choice, or all choices of a category, to yes.
PreferenceChanges: TypeAlias = Mapping[str, Mapping[str, bool | None] | None]


class PutUser(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The data of a user; a field that is left out is cleared.

    Without `org_id` a user stays in the organisation where they are; null removes them from it.
    """

    checks: ClassVar = {"locale": known_locale, "timezone": known_timezone, "allowed_window": readable_window}
    part_checks: ClassVar = {"attributes": attribute_faults}

    email: EmailAddress | None = None
    locale: ShortText | None = None
    timezone: ShortText | None = None
    gmt_offset_seconds: GmtOffset | None = None
    allowed_window: ShortText | None = None
    attributes: Attributes | None = None
    org_id: OrgId | UnsetType | None = UNSET


class PutNamedUser(PutUser, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The data of the user with this id."""

    user_id: UserId | NumericUserId


class PutUsers(Checked, frozen=True, forbid_unknown_fields=True):
    """Several users, each at most once; all are stored or none."""

    users: Annotated[list[PutNamedUser], Meta(min_length=1, max_length=LARGEST_BULK)]

    def passes(self) -> bool:
        """Return whether every user passes."""
        return all(user.passes() for user in self.users)


class StoredUsers(msgspec.Struct, frozen=True):
    """How many users were stored."""

    stored: int


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the directory."""

    user_id: str
    email: str | None
    locale: str | None
    timezone: str | None
    gmt_offset_seconds: int | None
    allowed_window: str | None
    updated_at: datetime
    attributes: Attributes = {}
    org_id: str | None = None


class RegisterDevice(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A device as its app registers it; its owner is the user of the person's token."""

    checks: ClassVar = {
        "token": not_blank,
        "replaces_token": not_blank,
        "locale": known_locale,
        "timezone": known_timezone,
    }

    token: DeviceToken
    platform: Platform
    provider: ProviderName = "fcm"
    token_kind: TokenKind = USUAL_KIND
    user_id: UserId | NumericUserId | None = None
    locale: ShortText | None = None
    timezone: ShortText | None = None
    app_version: ShortText | None = None
    device_model: ShortText | None = None
    replaces_token: DeviceToken | None = None


class UnregisterDevice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The device to retire, by its token, by its id or, with Amazon SNS, by the ARN of its endpoint."""

    token: DeviceToken | None = None
    device_id: UUID | None = None
    endpoint_arn: DeviceToken | None = None


class ChangeDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the person wants pushes on this device."""

    push_enabled: bool


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its owner sees it, with a short hash of its token.

    `stale` if it has not been seen for long; registering it again clears that. `endpoint_arn` is in the
    answer to a registration with Amazon SNS.
    """

    device_id: UUID
    user_id: str
    provider: str
    platform: str
    token_hash: str
    token_kind: Annotated[str, documented(get_args(TokenKind))]
    locale: str | None
    timezone: str | None
    app_version: str | None
    device_model: str | None
    push_enabled: bool
    notification_count: int
    last_sent_at: datetime | None
    registered_at: datetime
    last_seen_at: datetime
    stale: bool
    retired_at: datetime | None
    retired_reason: str | None
    endpoint_arn: str | None = None


class DeviceList(msgspec.Struct, frozen=True):
    """A person's devices, the active first."""

    devices: list[Device]
