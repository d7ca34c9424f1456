"""The roles of API keys and their rights."""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """The role of an API key."""

    PRODUCER = "producer"
    OPERATOR = "operator"
    VIEWER = "viewer"
    ADMIN = "admin"


class Right(StrEnum):
    """One right of a role."""

    ACCEPT = "hand in notifications"
    CANCEL = "cancel and reschedule notifications"
    SEE_OWN = "see the producer's own notifications"
    SEE_ALL = "see every notification"
    SEE_REFUSED = "see refused intents"
    SEE_USERS = "read the directory"
    CHANGE_USERS = "write the directory"
    SEE_TOGGLES = "see toggles and who switched them"
    CHANGE_TOGGLES = "switch toggles"
    SEE_SUPPRESSIONS = "see suppressed addresses"
    CHANGE_SUPPRESSIONS = "suppress addresses and remove suppressions"
    KEYS = "make, list and revoke API keys"


RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.PRODUCER: frozenset(
        {Right.ACCEPT, Right.CANCEL, Right.SEE_OWN, Right.SEE_USERS, Right.CHANGE_USERS}
    ),
    Role.OPERATOR: frozenset(
        {
            Right.CANCEL,
            Right.SEE_OWN,
            Right.SEE_ALL,
            Right.SEE_REFUSED,
            Right.SEE_USERS,
            Right.CHANGE_USERS,
            Right.SEE_TOGGLES,
            Right.CHANGE_TOGGLES,
            Right.SEE_SUPPRESSIONS,
            Right.CHANGE_SUPPRESSIONS,
        }
    ),
    Role.VIEWER: frozenset({Right.SEE_OWN, Right.SEE_ALL, Right.SEE_REFUSED, Right.SEE_TOGGLES}),
    Role.ADMIN: frozenset(Right),
}
