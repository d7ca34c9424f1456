"""What a person can do about an error code."""

import re
from collections.abc import Iterator, Mapping

_REMOVED = "The app was removed or its token expired. The device is retired till it registers."
_TOO_LARGE = "Shorten the templates or the payload: it is more than the provider takes."
_TOO_OFTEN = "This one device gets too much at once. It is tried again by itself."
_APPLES_KEY = (
    "Apple refuses the key. Check TOCSIN_APNS__KEY_FILE, TOCSIN_APNS__KEY_ID and TOCSIN_APNS__TEAM_ID."
)
_APPLES_TOPIC = "Apple refuses the topic for this key. TOCSIN_APNS__TOPIC must be the app's bundle id."
_APPLE_FAILS = "Apple's service failed or restarts. It is tried again by itself."
_NOT_APPLE = "Something else than APNs answered. Check TOCSIN_APNS__BASE_URL and proxies."
_MISWRITTEN = "The provider refuses how the request is written. Read the detail and report it as a bug."
_EXPO_FAILS = "Expo failed, or Apple or Google behind it. It is tried again by itself."
_EXPO_REFUSES = "Expo refuses to be sent to. Check TOCSIN_EXPO__ACCESS_TOKEN and its account's rights."
_VAPID = "The push service refuses the signature. Check TOCSIN_WEBPUSH__SUBJECT and this machine's clock."
_UNSUBSCRIBED = "The browser ended its subscription. It is retired till its page subscribes anew."
_PUSH_SERVICE_WAITS = "The push service asks to be tried again, and it is."
_ENDPOINT_DOWN = "The endpoint fails or is busy; its owner should look. It is tried again by itself."

HINTS: Mapping[str, str] = {
    "timeout": "The provider did not answer in time. It is tried again, but may have arrived already.",
    "network_error": "The provider could not be reached. Check DNS, proxy and firewall; it is tried again.",
    "unreadable_answer": "The provider's answer made no sense. Check that its address is the right one.",
    "payload_too_large": _TOO_LARGE,
    "target_not_supported": "This provider reaches single devices only; topics and conditions are FCM's.",
    "registered_again": "The provider's verdict is older than the app's registration. It is tried again.",
    "provider_failed": "A bug of Tocsin; the log has it as `provider failed`. It is tried again by itself.",
    "type_unknown": "Put the type's version back into the catalog and hand it in again under a new key.",
    "render_failed": "Mend the templates (`tocsin catalog check`) and hand it in again under a new key.",
    "lease_expired": "Workers died while they held it. Look for crashes or memory limits.",
    "UNREGISTERED": _REMOVED,
    "INVALID_ARGUMENT": "FCM refused the content or the token. Read the detail; check the templates.",
    "SENDER_ID_MISMATCH": "The token belongs to another Firebase project. Check which project the app uses.",
    "QUOTA_EXCEEDED": "FCM's quota is used up. Nothing is lost and no attempt is spent; it goes out later.",
    "UNAVAILABLE": "FCM is overloaded. It is tried again by itself.",
    "INTERNAL": "FCM failed. It is tried again by itself; if it lasts, see Firebase's status page.",
    "THIRD_PARTY_AUTH_ERROR": "Upload a valid APNs key for the app in the Firebase console.",
    "UNAUTHENTICATED": "FCM does not take the credentials. Check TOCSIN_FCM__CREDENTIALS_FILE.",
    "PERMISSION_DENIED": "The service account may not send. Give it Firebase Cloud Messaging API Admin.",
    "NOT_FOUND": "The provider knows no such project or address. Check project and base_url in the settings.",
    "credentials_refused": "Google refused the service account. Make a new key and restart.",
    "token_unavailable": "Google gave no access token. Check the network and the clock; it is tried again.",
    "BadDeviceToken": "Not a token of this app, or of Apple's other environment (TOCSIN_APNS__ENVIRONMENT).",
    "DeviceTokenNotForTopic": "The token is another app's, or not for VoIP. Check TOCSIN_APNS__TOPIC.",
    "ExpiredToken": _REMOVED,
    "Unregistered": _REMOVED,
    "PayloadTooLarge": _TOO_LARGE,
    "TooManyRequests": _TOO_OFTEN,
    "TooManyProviderTokenUpdates": "Apple saw the key sign too often. Does another program use it? It waits.",
    "IdleTimeout": "The connection was idle for too long. It is tried again by itself.",
    "ExpiredProviderToken": "Apple takes a fresh signature for outdated. Set this machine's clock.",
    "BadEnvironmentKeyIdInToken": "The key is for Apple's other environment. Check TOCSIN_APNS__ENVIRONMENT.",
    **dict.fromkeys(
        (
            "BadCertificate",
            "BadCertificateEnvironment",
            "Forbidden",
            "InvalidProviderToken",
            "MissingProviderToken",
            "UnrelatedKeyIdInToken",
        ),
        _APPLES_KEY,
    ),
    **dict.fromkeys(("BadTopic", "MissingTopic", "TopicDisallowed"), _APPLES_TOPIC),
    **dict.fromkeys(("BadPath", "MethodNotAllowed"), _NOT_APPLE),
    **dict.fromkeys(
        (
            "BadCollapseId",
            "BadExpirationDate",
            "BadMessageId",
            "BadPriority",
            "DuplicateHeaders",
            "InvalidPushType",
            "MissingDeviceToken",
            "PayloadEmpty",
        ),
        _MISWRITTEN,
    ),
    **dict.fromkeys(("InternalServerError", "ServiceUnavailable", "Shutdown"), _APPLE_FAILS),
    "DeviceNotRegistered": _REMOVED,
    "MessageTooBig": _TOO_LARGE,
    "PAYLOAD_TOO_LARGE": _TOO_LARGE,
    "DeveloperError": "Expo refused the message. Read the detail; check the type's texts and section `push`.",
    "VALIDATION_ERROR": "Expo cannot read the message. Read the detail; check the token and the templates.",
    "MessageRateExceeded": _TOO_OFTEN,
    "MismatchSenderId": "Expo holds the FCM key of another project than the app's. Run `eas credentials`.",
    "InvalidCredentials": "Expo lacks a valid FCM or APNs key of the app. Upload it: `eas credentials`.",
    "UNAUTHORIZED": _EXPO_REFUSES,
    "FORBIDDEN": _EXPO_REFUSES,
    "TOO_MANY_REQUESTS": "Expo was sent too much at once. It goes out later; lower TOCSIN_RATES__EXPO.",
    **dict.fromkeys(
        ("ExpoError", "ProviderError", "INTERNAL_SERVER_ERROR", "SERVICE_UNAVAILABLE", "unknown_error"),
        _EXPO_FAILS,
    ),
    **dict.fromkeys(
        ("PUSH_TOO_MANY_EXPERIENCE_IDS", "PUSH_TOO_MANY_NOTIFICATIONS", "PUSH_TOO_MANY_RECEIPTS"),
        _MISWRITTEN,
    ),
    "bad_request": "The push service refused the message. Read the detail; check TOCSIN_WEBPUSH__SUBJECT.",
    "unauthorized": _VAPID,
    "forbidden": _VAPID,
    "not_found": _UNSUBSCRIBED,
    "subscription_gone": _UNSUBSCRIBED,
    "vapid_key_mismatch": "The browser subscribed with another key. It is retired till it subscribes anew.",
    "invalid_subscription": "The token is no subscription of a browser. Its page has to subscribe anew.",
    "request_timeout": _PUSH_SERVICE_WAITS,
    "too_early": _PUSH_SERVICE_WAITS,
    "throttled": "The push service slows us down. It goes out later; no attempt is spent.",
    "too_many_requests": "The receiver was sent too much at once. It goes out later by itself.",
    "address_refused": "The address is not https or leads into a local network: see allow_private_addresses.",
    "redirected": "Redirects are not followed. Register the address that this one leads to.",
    "endpoint_gone": "The endpoint wants nothing more and is retired. Registering its URL brings it back.",
    "endpoint_refused": "The endpoint refuses the request. Its owner should look; it is tried again.",
    "endpoint_failed": _ENDPOINT_DOWN,
    "unavailable": _ENDPOINT_DOWN,
    "secret_unusable": "The endpoint has no secret to sign with. Rotate its secret.",
    "server_unfit": "The mail server lacks STARTTLS or a login. Check TOCSIN_SMTP__SECURITY and the port.",
    "invalid_address": "This is no mail address. Correct it in the directory, or where the producer has it.",
    "smtputf8_unsupported": "The mail server takes ASCII addresses only. The person needs another address.",
    "invalid_header": "A header of the mail cannot be written. Check TOCSIN_UNSUBSCRIBE__BASE_URL.",
}

_ACCOUNT = "The mail server refuses the account. Check TOCSIN_SMTP__USERNAME and TOCSIN_SMTP__PASSWORD."
_NO_MAILBOX = "There is no such mailbox. The address is suppressed; correct it in the directory."
_SENDER = "The mail server refuses the sender. Check TOCSIN_SMTP__SENDER and the DNS of its domain."
_TOO_LARGE_A_MAIL = "The mail is larger than the server takes. Shorten its texts."

SMTP_HINTS: Mapping[str, str] = {
    "4": "The mail server cannot take it for now. It is tried again by itself.",
    "4.7": "Too fast for the mail server, or not known to it yet (greylisting). It is tried again by itself.",
    "454 4.7.0": "The mail server cannot check the password for now. It is tried again by itself.",
    "5": "The mail server refuses it for good. Read the detail, or ask whoever runs the server.",
    **dict.fromkeys(("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1", "556"), _NO_MAILBOX),
    **dict.fromkeys(("5.1.7", "5.1.8"), _SENDER),
    "5.2.2": "The mailbox is full. Hand it in again later, or ask the person.",
    **dict.fromkeys(("5.3.4", "552"), _TOO_LARGE_A_MAIL),
    "5.7": "Refused by policy. Check SPF, DKIM and DMARC of the sender's domain, and its reputation.",
    **dict.fromkeys(("5.7.3", "5.7.8", "5.7.9", "5.7.11", "530", "534", "535", "538"), _ACCOUNT),
    **dict.fromkeys(("530 5.7", "534 5.7", "535 5.7", "538 5.7"), _ACCOUNT),
}
"""By reply code, enhanced status code, or a part of either: the most exact counts."""

_PROVIDER_FAILS = "The provider failed, or a proxy before it. It is tried again by itself."
_NOT_THE_PROVIDER = "An answer that this provider does not give: check proxies and base_url."
_SMTP = re.compile(
    r"(?P<reply>(?P<reply_class>[45])\d\d)(?: (?P<enhanced>(?P<subject>\d\.\d{1,3})\.\d{1,3}))?"
)
_STATUS = re.compile(r"http_(\d)\d\d", re.IGNORECASE)


def hint(code: str | None) -> str | None:
    """Say what to do about an error code, where there is something to say."""
    if not code:
        return None
    if (known := HINTS.get(code)) is not None:
        return known
    if (answer := _SMTP.fullmatch(code)) is not None:
        return next(SMTP_HINTS[part] for part in _parts(answer) if part in SMTP_HINTS)
    if (status := _STATUS.fullmatch(code)) is not None:
        return _PROVIDER_FAILS if status[1] == "5" else _NOT_THE_PROVIDER
    return None


def _parts(answer: re.Match[str]) -> Iterator[str]:
    """Give a mail server's code and what it is made of, the most exact first."""
    if answer["enhanced"]:
        yield from (
            answer[0],
            answer["enhanced"],
            f"{answer['reply']} {answer['subject']}",
            answer["subject"],
        )
    yield from (answer["reply"], answer["reply_class"])
