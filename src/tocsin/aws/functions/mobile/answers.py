"""What SNS answers to a publish to an endpoint, and what it means for the endpoint and the message."""

from typing import TypeAlias

import msgspec


class Sent(msgspec.Struct, frozen=True):
    """SNS took the message."""


class Gone(msgspec.Struct, frozen=True):
    """The endpoint is disabled or deleted: it is retired."""

    code: str


class Refused(msgspec.Struct, frozen=True):
    """SNS refuses the message itself, and will do so again."""

    code: str


class Failed(msgspec.Struct, frozen=True):
    """SNS did not take it now; `alarm` if somebody has to change something first."""

    code: str
    alarm: bool = False


Answer: TypeAlias = Sent | Gone | Refused | Failed

_GONE = frozenset({"EndpointDisabled", "EndpointDisabledException", "NotFound", "NotFoundException"})
_INVALID = frozenset(
    {
        "InvalidParameter",
        "InvalidParameterException",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "ParameterValueInvalid",
        "ValidationError",
    }
)
_ALARMS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "ExpiredToken",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "KMSAccessDenied",
        "KMSDisabled",
        "KMSInvalidState",
        "KMSNotFound",
        "KMSOptInRequired",
        "MissingAuthenticationToken",
        "OptInRequired",
        "PlatformApplicationDisabled",
        "PlatformApplicationDisabledException",
        "SignatureDoesNotMatch",
    }
)
# As in: Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified.
_ABOUT_ENDPOINT = "TargetArn"


def classify(code: str, message: str) -> Answer:
    """Return what an error of SNS means; one that is not known is tried again until the queue gives up."""
    if code in _GONE:
        return Gone(code)
    if code in _INVALID:
        return Gone(code) if _ABOUT_ENDPOINT in message else Refused(code)
    return Failed(code, alarm=code in _ALARMS)
