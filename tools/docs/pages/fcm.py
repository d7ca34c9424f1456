"""The reference of FCM's answers, from the table that the code uses."""

from collections.abc import Sequence
from datetime import timedelta

from tocsin.domain.delivery.hints import HINTS, advice
from tocsin.domain.people.topics import MOST_TOPICS
from tocsin.providers.answers import Rule
from tocsin.providers.fcm.answers import RULES
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.render import TOPIC_BYTES
from tools.docs.markdown import code, page, table

OUTCOMES = {
    "retry": "an attempt is spent; the next comes after `Retry-After` or the type's backoff, "
    "whichever is longer",
    "defer": "no attempt is spent; the delivery waits",
    "rejected": "final; the delivery is `rejected`",
    "gone": "final; the device is retired in the same transaction",
}


def fcm_page() -> str:
    """Build the page."""
    return page(
        "FCM answers and error codes",
        "What Tocsin does with each answer of FCM. An answer that is in no row is retried if its status is "
        "500 or higher, deferred if it is 429, and rejected otherwise.",
        *answers_tables(RULES, "FCM"),
        "A message that gets no answer at all is retried: `timeout`, `network_error`, `unreadable_answer`.",
        "## Targets and sizes",
        "A device is addressed by its registration token, or by its Firebase installation id if it was "
        "[registered](../guides/devices.md) with one. A message to a topic goes to all who follow it, "
        'or whose topics meet a condition: an intent says `{"audience": {"topic": "news"}}` or '
        """`{"audience": {"condition": "'news' in topics && !('sports' in topics)"}}`. """
        "A condition joins topics by `&&`, `||`, `!` and parentheses. Apps follow topics by Firebase's SDK.",
        table(
            ["target", "takes at most"],
            [
                ["a device", f"{FcmProvider.limits.payload_bytes:,} bytes"],
                ["a topic, a condition", f"{TOPIC_BYTES:,} bytes"],
                ["a condition", f"{MOST_TOPICS} topics"],
            ],
        ),
        "The bytes are those of title, body, data and what the type's "
        "[section `push`](../guides/catalog.md#how-a-push-looks) adds. More is `rejected` with the code "
        "`payload_too_large` before it is sent.",
        "## What to do about an error code",
        "[Error codes](errors.md) has those that every provider gives too.",
        table(["code", "advice"], ([code(name), advice(HINTS[name])] for name in _own_codes())),
    )


def _own_codes() -> list[str]:
    return list(dict.fromkeys([*(rule.code for rule in RULES), "credentials_refused", "token_unavailable"]))


def answers_tables(rules: Sequence[Rule], provider: str) -> tuple[str, str]:
    """Build the table of a provider's answers, and that of the outcomes."""
    return (
        table(["status", "code", "about", "outcome", "besides"], (_row(rule, provider) for rule in rules)),
        table(["outcome", "meaning"], ([code(name), meaning] for name, meaning in OUTCOMES.items())),
    )


def _row(rule: Rule, provider: str) -> list[str]:
    return [
        str(rule.status),
        code(rule.code),
        rule.about or "",
        code(rule.outcome),
        "; ".join(_besides(rule, provider)),
    ]


def _besides(rule: Rule, provider: str) -> list[str]:
    said = []
    if rule.pauses:
        said.append(f"{provider} is left alone meanwhile")
    if rule.rest > timedelta():
        seconds = rule.rest.total_seconds()
        said.append(f"waits at least {seconds / 60:g} min" if seconds % 60 == 0 else f"waits {seconds:g} s")
    if rule.quarantine:
        said.append("the device is set aside")
    if rule.alarm:
        said.append("an operator has to act: logged as an error")
    return said
