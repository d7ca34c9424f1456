"""The reference of FCM's answers and of error codes, from the tables that the code obeys."""

from datetime import timedelta

from tocsin.domain.hints import HINTS
from tocsin.providers.fcm_answers import RULES, Rule
from tools.docs.markdown import code, page, table

OUTCOMES = {
    "retry": "an attempt is spent; the next comes after `Retry-After` or the type's backoff, "
    "whichever is longer",
    "defer": "no attempt is spent; the delivery waits",
    "rejected": "final; the delivery is `rejected`",
    "gone": "final; the device is retired in the same transaction",
}


def fcm_page() -> str:
    """Write the page."""
    return page(
        "FCM answers and error codes",
        "What Tocsin does with each answer of FCM. An answer that is in no row is retried if its status is "
        "500 or higher, deferred if it is 429, and rejected otherwise.",
        table(["status", "code", "about", "outcome", "besides"], map(_row, RULES)),
        table(["outcome", "meaning"], ([code(name), meaning] for name, meaning in OUTCOMES.items())),
        "A message that gets no answer at all is retried: `timeout`, `network_error`, `unreadable_answer`.",
        "## What to do about an error code",
        "`last_error_code` of a delivery and `code` of an attempt hold these; `hint` holds the advice.",
        table(["code", "advice"], ([code(name), advice] for name, advice in HINTS.items())),
    )


def _row(rule: Rule) -> list[str]:
    return [
        str(rule.status),
        code(rule.code),
        rule.about or "",
        code(rule.outcome),
        "; ".join(_besides(rule)),
    ]


def _besides(rule: Rule) -> list[str]:
    said = []
    if rule.pauses:
        said.append("FCM is left alone meanwhile")
    if rule.rest > timedelta():
        said.append(f"waits at least {rule.rest.total_seconds() / 60:g} min")
    if rule.quarantine:
        said.append("the device is set aside")
    if rule.alarm:
        said.append("an operator has to act: logged as an error")
    return said
