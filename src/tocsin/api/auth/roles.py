"""The roles of API keys and their rights."""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """The role of an API key."""

    PRODUCER = "producer"
    OPERATOR = "operator"
    VIEWER = "viewer"
    DELIVERY = "delivery"
    ADMIN = "admin"


class Right(StrEnum):
    """One right of a role."""

    ACCEPT = "hand in notifications"
    CANCEL = "cancel and reschedule notifications"
    SEE_OWN = "see the producer's own notifications"
    SEE_ALL = "see every notification"
    SEE_REFUSED = "see refused intents"
    SEE_USERS = "read the directory and preferences"
    CHANGE_USERS = "write the directory and preferences"
    ERASE_USERS = "erase and export the data of a person"
    SEE_TOGGLES = "see toggles and who switched them"
    CHANGE_TOGGLES = "switch toggles"
    SEE_SUPPRESSIONS = "see suppressed addresses"
    CHANGE_SUPPRESSIONS = "suppress addresses and remove suppressions"
    RECOVER = "replay dead letters and cancel by query"
    SEE_AUDIT = "see who did what"
    DELIVER = "find and retire the endpoints of people"
    KEYS = "create, list, rotate and revoke API keys"


_VIEWER = frozenset({Right.SEE_OWN, Right.SEE_ALL, Right.SEE_REFUSED, Right.SEE_TOGGLES})
_USERS = frozenset({Right.SEE_USERS, Right.CHANGE_USERS})
_SUPPRESSIONS = frozenset({Right.SEE_SUPPRESSIONS, Right.CHANGE_SUPPRESSIONS})

RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.PRODUCER: _USERS | {Right.ACCEPT, Right.CANCEL, Right.SEE_OWN},
    Role.OPERATOR: _VIEWER
    | _USERS
    | _SUPPRESSIONS
    | {Right.CANCEL, Right.CHANGE_TOGGLES, Right.RECOVER, Right.SEE_AUDIT, Right.ERASE_USERS},
    Role.VIEWER: _VIEWER,
    Role.DELIVERY: frozenset({Right.DELIVER}),
    Role.ADMIN: frozenset(Right),
}
