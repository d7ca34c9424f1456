"""Hints: what a person can do about an error code."""

import re
from collections.abc import Iterator, Mapping

from tocsin.domain.delivery.states import WAITING, State

_REMOVED = "The app was removed or its token expired. The device is retired until it registers again."
_TOO_LARGE = "The message is larger than the provider allows. Shorten the templates or the payload."
_TOO_OFTEN = "This one device receives too many messages at once.{ It is retried automatically.|}"
_APPLES_KEY = (
    "Apple refuses the key. Check TOCSIN_APNS__KEY_FILE, TOCSIN_APNS__KEY_ID and TOCSIN_APNS__TEAM_ID."
)
_APPLES_TOPIC = "Apple refuses the topic for this key. TOCSIN_APNS__TOPIC must be the app's bundle id."
_APPLE_FAILS = "Apple's service failed or restarts.{ It is retried automatically.|}"
_NOT_APPLE = "A server other than APNs answered. Check TOCSIN_APNS__BASE_URL and proxies."
_MISWRITTEN = "The provider refuses the form of the request. Read the detail and report it as a bug."
_EXPO_FAILS = "Expo failed, or Apple or Google behind it.{ It is retried automatically.|}"
_EXPO_REFUSES = "Expo refuses the sender. Check TOCSIN_EXPO__ACCESS_TOKEN and its account's rights."
_VAPID = "The push service refuses the signature. Check TOCSIN_WEBPUSH__SUBJECT and this machine's clock."
_UNSUBSCRIBED = "The browser ended its subscription. It is retired until its page subscribes again."
_PUSH_SERVICE_WAITS = "The push service asks for a later retry.{ It is retried automatically.|}"
_SERVICE_FAILS = "The provider's service failed or restarts.{ It is retried automatically.|}"
_AWS_REFUSES = "AWS refuses the request. Check the credentials, their rights and this machine's clock."
_AWS_KEY = "SNS cannot use the KMS key. Check the key and the rights of the credentials."
_AWS_RATE = "The quota of the AWS account is exceeded. {It is sent later; lower|Lower} TOCSIN_RATES__SNS."
_ENDPOINT_DOWN = "The endpoint fails or is busy; its owner should check it.{ It is retried automatically.|}"

HINTS: Mapping[str, str] = {
    "timeout": "The provider did not answer in time. It {is retried, but may|may} have arrived already.",
    "network_error": "The provider could not be reached. Check DNS, proxy and firewall{; it is retried|}.",
    "unreadable_answer": "The provider's answer cannot be parsed. Check that its address is the right one.",
    **dict.fromkeys(
        ("payload_too_large", "PayloadTooLarge", "MessageTooBig", "PAYLOAD_TOO_LARGE"), _TOO_LARGE
    ),
    "target_not_supported": "This provider reaches single devices only; topics and conditions are FCM's.",
    "registered_again": "The provider's answer is older than the app's registration.{ It is retried.|}",
    "provider_failed": "A bug in Tocsin; look for `provider failed` in the log.{ It is retried.|}",
    "internal_error": "A bug in Tocsin; look for the correlation id in the log. Fix it, then replay.",
    "type_unknown": "Deploy a catalog that has the type to the workers; what they hold is then sent.",
    "data_key_unknown": "Set the data key, restart the workers, then replay it by `tocsin dead replay`.",
    "render_failed": "Fix the templates (`tocsin catalog check`), then replay it by `tocsin dead replay`.",
    "lease_expired": "Workers died while they held its lease. Look for crashes or memory limits.",
    **dict.fromkeys(("UNREGISTERED", "ExpiredToken", "Unregistered", "DeviceNotRegistered"), _REMOVED),
    "INVALID_ARGUMENT": "FCM refused the content or the token. Read the detail; check the templates.",
    "SENDER_ID_MISMATCH": "The token belongs to another Firebase project. Check which project the app uses.",
    "QUOTA_EXCEEDED": "FCM's quota is used up.{ Nothing is lost and no attempt is spent; it is sent later.|}",
    "UNAVAILABLE": "FCM is overloaded.{ It is retried automatically.|}",
    "INTERNAL": "FCM failed. {It is retried automatically; if|If} it lasts, see Firebase's status page.",
    "THIRD_PARTY_AUTH_ERROR": "Upload a valid APNs key for the app in the Firebase console.",
    "UNAUTHENTICATED": "FCM refuses the credentials. Check TOCSIN_FCM__CREDENTIALS_FILE.",
    "PERMISSION_DENIED": "The service account may not send. Give it Firebase Cloud Messaging API Admin.",
    "NOT_FOUND": "The provider has no such project or address. Check project and base_url in the settings.",
    "credentials_refused": "Google refused the service account. Make a new key and restart.",
    "token_unavailable": "Google gave no access token. Check the network and the clock{; it is retried|}.",
    "BadDeviceToken": "Not a token of this app, or of Apple's other environment (TOCSIN_APNS__ENVIRONMENT).",
    "DeviceTokenNotForTopic": "The token is another app's, or not for VoIP. Check TOCSIN_APNS__TOPIC.",
    **dict.fromkeys(("TooManyRequests", "MessageRateExceeded"), _TOO_OFTEN),
    "TooManyProviderTokenUpdates": "The key signs too often for Apple. See whether another program uses it.",
    "IdleTimeout": "The connection was idle for too long.{ It is retried automatically.|}",
    "ExpiredProviderToken": "Apple sees a new signature as expired. Set this machine's clock.",
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
    **dict.fromkeys(("InternalServerError", "Shutdown"), _APPLE_FAILS),
    **dict.fromkeys(("ServiceUnavailable", "InternalError", "InternalFailure"), _SERVICE_FAILS),
    "EndpointDisabled": "The app was removed or its token expired. It is retired until it registers again.",
    "NotFound": "The endpoint was deleted at AWS. The device is retired until it registers again.",
    "InvalidParameter": "SNS refused the message, or has no such endpoint. Read the detail.",
    **dict.fromkeys(("InvalidParameterValue", "ParameterValueInvalid", "ValidationError"), _MISWRITTEN),
    "PlatformApplicationDisabled": "SNS cannot use the FCM or APNs key. Upload it to the application again.",
    **dict.fromkeys(("Throttling", "ThrottlingException", "KMSThrottling", "Throttled"), _AWS_RATE),
    **dict.fromkeys(
        (
            "AuthorizationError",
            "AccessDenied",
            "InvalidClientTokenId",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
            "ExpiredTokenException",
            "MissingAuthenticationToken",
            "OptInRequired",
            "InvalidSecurity",
            "RequestExpired",
            "no_credentials",
        ),
        _AWS_REFUSES,
    ),
    **dict.fromkeys(
        ("KMSAccessDenied", "KMSDisabled", "KMSInvalidState", "KMSNotFound", "KMSOptInRequired"), _AWS_KEY
    ),
    "InvalidAction": "A server other than SNS answered. Check TOCSIN_SNS__BASE_URL and proxies.",
    "other_account": "The endpoint is in another account or region. Check TOCSIN_SNS__GCM_APP_ARN.",
    "DeveloperError": "Expo refused the message. Read the detail; check the type's texts and section `push`.",
    "VALIDATION_ERROR": "Expo cannot read the message. Read the detail; check the token and the templates.",
    "MismatchSenderId": "Expo holds the FCM key of another project than the app's. Run `eas credentials`.",
    "InvalidCredentials": "Expo lacks a valid FCM or APNs key of the app. Upload it with `eas credentials`.",
    **dict.fromkeys(("UNAUTHORIZED", "FORBIDDEN"), _EXPO_REFUSES),
    "TOO_MANY_REQUESTS": "Expo's rate limit is exceeded. {It is sent later; lower|Lower} TOCSIN_RATES__EXPO.",
    **dict.fromkeys(
        ("ExpoError", "ProviderError", "INTERNAL_SERVER_ERROR", "SERVICE_UNAVAILABLE", "unknown_error"),
        _EXPO_FAILS,
    ),
    **dict.fromkeys(
        ("PUSH_TOO_MANY_EXPERIENCE_IDS", "PUSH_TOO_MANY_NOTIFICATIONS", "PUSH_TOO_MANY_RECEIPTS"),
        _MISWRITTEN,
    ),
    "bad_request": "The push service refused the message. Read the detail; check TOCSIN_WEBPUSH__SUBJECT.",
    **dict.fromkeys(("unauthorized", "forbidden"), _VAPID),
    **dict.fromkeys(("not_found", "subscription_gone"), _UNSUBSCRIBED),
    "vapid_key_mismatch": "The browser subscribed with another key. It is retired until it subscribes again.",
    "invalid_subscription": "The token is not a browser's subscription. Its page has to subscribe again.",
    **dict.fromkeys(("request_timeout", "too_early"), _PUSH_SERVICE_WAITS),
    "throttled": "The push service limits the rate.{ It is sent later; no attempt is spent.|}",
    "too_many_requests": "The receiver's rate limit is exceeded.{ It is sent later automatically.|}",
    "address_refused": "Not https, or a private address (SSRF guard): see allow_private_addresses.",
    "redirected": "Redirects are not followed. Register the address that this one redirects to.",
    "endpoint_gone": "The endpoint answered 410 Gone and is retired. Register its URL again to use it.",
    "endpoint_refused": "The endpoint refuses the request. Its owner should check it{; it is retried|}.",
    **dict.fromkeys(("endpoint_failed", "unavailable"), _ENDPOINT_DOWN),
    "secret_unusable": "The endpoint has no secret to sign with. Rotate its secret.",
    "server_unfit": "The server has no STARTTLS or no login. Check TOCSIN_SMTP__SECURITY and the port.",
    "invalid_address": "This is not an e-mail address. Correct it in the directory, or at the producer.",
    "smtputf8_unsupported": "The mail server accepts ASCII addresses only. The person needs another address.",
    "payload_encoding_failed": "The payload does not fit its event. Correct the producer, catalog or tables.",
    "gateway_stream_publish_failed": "Redis did not take the event. Check the server.{ It is retried.|}",
    "mail_stream_publish_failed": "Redis did not take the command. Check the server.{ It is retried.|}",
    "invalid_header": "A header of the mail cannot be written. Check TOCSIN_UNSUBSCRIBE__BASE_URL.",
}

_ACCOUNT = "The mail server refuses the account. Check TOCSIN_SMTP__USERNAME and TOCSIN_SMTP__PASSWORD."
_NO_MAILBOX = "There is no such mailbox. The address is suppressed; correct it in the directory."
_SENDER = "The mail server refuses the sender. Check TOCSIN_SMTP__SENDER and the DNS of its domain."
_TOO_LARGE_A_MAIL = "The mail is larger than the server allows. Shorten its texts."

SMTP_HINTS: Mapping[str, str] = {
    "4": "The mail server does not accept it for now.{ It is retried automatically.|}",
    "4.7": "Rate limit of the mail server, or greylisting of a new sender.{ It is retried automatically.|}",
    "454 4.7.0": "The mail server cannot check the password for now.{ It is retried automatically.|}",
    "5": "The mail server refuses it for good. Read the detail, or ask whoever runs the server.",
    **dict.fromkeys(("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1", "556"), _NO_MAILBOX),
    **dict.fromkeys(("5.1.7", "5.1.8"), _SENDER),
    "5.2.2": "The mailbox is full. Submit it again later, or ask the person.",
    **dict.fromkeys(("5.3.4", "552"), _TOO_LARGE_A_MAIL),
    "5.7": "Refused by policy. Check SPF, DKIM and DMARC of the sender's domain, and its reputation.",
    **dict.fromkeys(("5.7.3", "5.7.8", "5.7.9", "5.7.11", "530", "534", "535", "538"), _ACCOUNT),
    **dict.fromkeys(("530 5.7", "534 5.7", "535 5.7", "538 5.7"), _ACCOUNT),
}
"""By reply code, enhanced status code, or a part of either; the most specific applies."""

_PROVIDER_FAILS = "The provider failed, or a proxy in front of it.{ It is retried automatically.|}"
_NOT_THE_PROVIDER = "This provider does not send such an answer: check proxies and base_url."
_SMTP = re.compile(
    r"(?P<reply>(?P<reply_class>[45])\d\d)(?: (?P<enhanced>(?P<subject>\d\.\d{1,3})\.\d{1,3}))?"
)
_NOTHING_LEFT = "It is not tried again by itself: once the cause is fixed, `tocsin dead replay`."
_SEND_AFTER_ALL = "Once the cause is fixed: `tocsin dead replay {}`, or a new intent with a new key."
_REPLAY = re.compile(r",? then replay[^.]*")
# {while it waits|once it is settled}
_BY_STATE = re.compile(r"\{([^|}]*)\|([^}]*)\}")
_STATUS = re.compile(r"http_(\d)\d\d", re.IGNORECASE)


def hint(code: str | None, state: State = State.RETRYING) -> str | None:
    """Return what to do about an error code of a delivery, if there is a hint for it."""
    text = _find(code)
    return None if text is None else advice(text, state)


def recovery_hint(code: str | None, selection: str) -> str:
    """Return how dead letters reach their recipients after all: what to fix, and the replay of a selection.

    A selection is what `tocsin dead replay` takes: the id of a delivery, or a filter.
    """
    text = _find(code)
    fix = "Read the error." if text is None else _REPLAY.sub("", advice(text, State.REJECTED))
    return f"{fix} {_SEND_AFTER_ALL.format(selection)}"


def advice(text: str, state: State = State.RETRYING) -> str:
    """Return a text of the tables as it is true of a delivery in a state: only what waits is retried."""
    shown = _BY_STATE.sub(r"\1" if state in WAITING else r"\2", text)
    return f"{shown} {_NOTHING_LEFT}" if state is State.DEAD else shown


def _find(code: str | None) -> str | None:
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
    """Yield a mail server's code and its parts, the most specific first."""
    if answer["enhanced"]:
        yield from (
            answer[0],
            answer["enhanced"],
            f"{answer['reply']} {answer['subject']}",
            answer["subject"],
        )
    yield from (answer["reply"], answer["reply_class"])
