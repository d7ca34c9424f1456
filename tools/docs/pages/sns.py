"""The reference of Amazon SNS: what is published, and its answers from the table that the code uses."""

from tocsin.domain.delivery.hints import HINTS, advice
from tocsin.providers.sns.answers import RULES
from tocsin.providers.sns.render import PAYLOAD_BYTES
from tools.docs.markdown import code, page, table
from tools.docs.pages.fcm import answers_tables

ATTRIBUTES = {
    "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "`alert` or `background`; a `voip` push is sent as an alert",
    "AWS.SNS.MOBILE.APNS.PRIORITY": "`10`, or `5` for `background`",
    "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": "the collapse key, else the id of the delivery",
    "AWS.SNS.MOBILE.APNS.TOPIC": "`sns.apns_topic`, if it is set",
    "AWS.SNS.MOBILE.APNS.TTL, AWS.SNS.MOBILE.APNS_SANDBOX.TTL": "the seconds until the delivery ends",
}


def sns_page() -> str:
    """Build the page."""
    return page(
        "Amazon SNS: messages, answers and error codes",
        "## What is published",
        "One `Publish` for each message, with the ARN of the device's endpoint as `TargetArn` and "
        "`MessageStructure` `json`. The ARN names the push service of the endpoint, so `Message` has the "
        "payload of that service, and `default`, which SNS requires:",
        table(
            ["endpoint", "payload"],
            [
                [
                    "`…:endpoint/GCM/…`",
                    '`{"fcmV1Message": {"message": {…}}}`: the message as [FCM](fcm.md) takes it',
                ],
                [
                    "`…:endpoint/APNS/…`, `…:endpoint/APNS_SANDBOX/…`",
                    "the payload as [APNs](apns.md) takes it",
                ],
            ],
        ),
        "Apple's headers are message attributes; FCM has their counterparts in its payload.",
        table(["attribute", "from"], ([code(name), text] for name, text in ATTRIBUTES.items())),
        f"A payload of more than {PAYLOAD_BYTES:,} bytes is rejected as `payload_too_large` before it is "
        "sent.",
        "SNS accepts a message before the push service behind it does. When that refuses the device, SNS "
        "disables the endpoint, and the next message is answered with `EndpointDisabled`.",
        "## What an answer means",
        *answers_tables(RULES, "SNS"),
        "`InvalidParameter` is about the endpoint if its text names the `TargetArn`. Another answer with "
        "status 400 or from 500 on is retried, 401, 403, 404 and 429 are deferred. A message without an "
        "answer is retried: `timeout`, `network_error`. ARNs are shown as `[arn]` in `detail`.",
        "## What to do about an error code",
        "[Error codes](errors.md) has those that every provider gives too.",
        table(["code", "advice"], ([code(name), advice(HINTS[name])] for name in _own_codes())),
    )


def _own_codes() -> list[str]:
    return list(dict.fromkeys([*(rule.code for rule in RULES), "no_credentials", "other_account"]))
