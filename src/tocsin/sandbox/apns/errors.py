"""Apple's error answers: a status and a reason for each."""

import msgspec

from tocsin.sandbox.answers import JSON, Answer

STATUSES: dict[str, int] = {
    "BadCollapseId": 400,
    "BadDeviceToken": 400,
    "BadExpirationDate": 400,
    "BadMessageId": 400,
    "BadPriority": 400,
    "BadTopic": 400,
    "DeviceTokenNotForTopic": 400,
    "DuplicateHeaders": 400,
    "IdleTimeout": 400,
    "InvalidPushType": 400,
    "MissingDeviceToken": 400,
    "MissingTopic": 400,
    "PayloadEmpty": 400,
    "TopicDisallowed": 400,
    "BadCertificate": 403,
    "BadCertificateEnvironment": 403,
    "BadEnvironmentKeyIdInToken": 403,
    "ExpiredProviderToken": 403,
    "Forbidden": 403,
    "InvalidProviderToken": 403,
    "MissingProviderToken": 403,
    "UnrelatedKeyIdInToken": 403,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "ExpiredToken": 410,
    "Unregistered": 410,
    "PayloadTooLarge": 413,
    "TooManyProviderTokenUpdates": 429,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "Shutdown": 503,
}
"""Every reason that Apple documents, by which it can be scripted and is counted."""

_GONE = 410


def refused(reason: str, apns_id: str, *, gone_since_ms: int) -> Answer:
    """Answer with a reason; a device that is gone is so since a moment."""
    status = STATUSES[reason]
    body: dict[str, str | int] = {"reason": reason}
    if status == _GONE:
        body["timestamp"] = gone_since_ms
    return Answer(reason, status, msgspec.json.encode(body), [JSON, ("apns-id", apns_id)])


def taken(apns_id: str) -> Answer:
    """Answer as APNs does when it takes a message: with its id alone."""
    return Answer("OK", 200, b"", [("apns-id", apns_id)])
