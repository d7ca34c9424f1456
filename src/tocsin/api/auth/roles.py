"""What the holder of an API key may do."""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What a key was made for."""

    PRODUCER = "producer"
    OPERATOR = "operator"
    VIEWER = "viewer"
    ADMIN = "admin"


class Right(StrEnum):
    """One thing a key may allow."""

    ACCEPT = "hand in notifications"
    CANCEL = "take notifications back and move them"
    SEE_OWN = "see the producer's own notifications"
    SEE_ALL = "see every notification"
    SEE_REFUSED = "see refused intents"
    SEE_USERS = "read the directory"
    CHANGE_USERS = "write the directory"
    SEE_TOGGLES = "see toggles and who switched them"
    CHANGE_TOGGLES = "switch toggles"
    SEE_SUPPRESSIONS = "see which addresses are sent no mail"
    CHANGE_SUPPRESSIONS = "suppress addresses and lift it"
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
