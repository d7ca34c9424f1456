"""What a person can do about an error code."""

from collections.abc import Mapping

HINTS: Mapping[str, str] = {
    "UNREGISTERED": "The app was removed or its token expired. The device is retired till it registers.",
    "INVALID_ARGUMENT": "FCM refused the content or the token. Read the detail; check the templates.",
    "SENDER_ID_MISMATCH": "The token belongs to another Firebase project. Check which project the app uses.",
    "QUOTA_EXCEEDED": "FCM's quota is used up. Nothing is lost and no attempt is spent; it goes out later.",
    "UNAVAILABLE": "FCM is overloaded. It is tried again by itself.",
    "INTERNAL": "FCM failed. It is tried again by itself; if it lasts, see Firebase's status page.",
    "THIRD_PARTY_AUTH_ERROR": "Upload a valid APNs key for the app in the Firebase console.",
    "UNAUTHENTICATED": "FCM does not take the credentials. Check TOCSIN_FCM__CREDENTIALS_FILE.",
    "PERMISSION_DENIED": "The service account may not send. Give it Firebase Cloud Messaging API Admin.",
    "NOT_FOUND": "FCM does not know the project. Check the project of the service account.",
    "credentials_refused": "Google refused the service account. Make a new key and restart.",
    "token_unavailable": "Google gave no access token. Check the network and the clock; it is tried again.",
    "timeout": "The provider did not answer in time. It is tried again; a phone may have got it already.",
    "network_error": "The provider could not be reached. Check DNS, proxy and firewall; it is tried again.",
    "unreadable_answer": "The provider's answer made no sense. Check that its address is the right one.",
    "payload_too_large": "Shorten the templates or the payload: providers take 4,096 bytes.",
    "type_unknown": "Put the type's version back into the catalog and hand it in again under a new key.",
    "render_failed": "Mend the templates (`tocsin catalog check`) and hand it in again under a new key.",
    "lease_expired": "Workers died while they held it. Look for crashes or memory limits.",
}


def hint(code: str | None) -> str | None:
    """Say what to do about an error code, where there is something to say."""
    return HINTS.get(code) if code else None
