"""What the answers of mail servers mean, as a table.

An answer has a reply code (RFC 5321) and most have an enhanced status code (RFC 3463), which says more.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal, NamedTuple

from tocsin.providers.answers import NEEDS_OPERATOR, Answer, Failure, Rule, outcome_of

RATE_REST = timedelta(minutes=1)
LONGEST_DETAIL = 300

Stage = Literal["hello", "login", "sender", "recipient", "content"]
"""How far a session had come: the target is named with `recipient`, and cannot be at fault before."""

Meaning = Literal["busy", "target_busy", "rate", "credentials", "setup", "rejected", "gone"]
"""What is the matter: the server or the mailbox for now, too fast a pace, the account, the sender's
own set-up, this message, or the mailbox for good."""


OUTCOMES: Mapping[Meaning, Rule] = {
    "busy": Rule(outcome="retry"),
    "target_busy": Rule(outcome="retry", speaks_against="target"),
    "rate": Rule(outcome="defer", pauses=True, rest=RATE_REST),
    "credentials": Rule(**NEEDS_OPERATOR),
    "setup": Rule(**NEEDS_OPERATOR),
    "rejected": Rule(outcome="rejected"),
    "gone": Rule(outcome="gone"),
}


class SmtpAnswer(NamedTuple):
    """A server's answer, parsed."""

    code: int
    enhanced: str | None
    text: str


_TOO_FAST = re.compile(r"too (many|much|fast)|\brate|\bthrottl|\bslow down|\blimit", re.IGNORECASE)

MEANINGS: Mapping[str, Meaning] = {
    "4": "busy",
    **dict.fromkeys(("421", "454", "4.3"), "busy"),
    # 4.4 is the route from the server on to the mailbox: its own host does not answer. 4.7 is greylisting,
    # mostly: the same server takes the same mail some minutes later.
    **dict.fromkeys(("450", "451", "452", "4.1", "4.2", "4.4", "4.7"), "target_busy"),
    "421 4.7": "rate",
    "454 4.7.0": "busy",
    "5": "rejected",
    **dict.fromkeys(("552", "5.3.4", "5.7.1"), "rejected"),
    **dict.fromkeys(("556", "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"), "gone"),
    **dict.fromkeys(("5.1.7", "5.1.8"), "setup"),
    **dict.fromkeys(("5.7.3", "5.7.8", "5.7.9", "5.7.11"), "credentials"),
    **dict.fromkeys(("530", "530 5.7.0", "534", "535", "538"), "credentials"),
}
"""By reply code, enhanced status code, its first two numbers, or a reply code's first digit; the most exact
counts."""

# What a refusal means before the target was sent: every message would get it.
_BEFORE_THE_TARGET: Mapping[Meaning, Meaning] = {"target_busy": "busy", "rejected": "setup", "gone": "setup"}
_TOO_LARGE = 552
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")
_ADDRESS = re.compile(r"""[^\s<>"'(),;:=]+@[^\s<>"'(),;:=]+""")
_HIDDEN = "[address]"


def read_answer(code: int, text: str) -> SmtpAnswer:
    """Parse an answer; an enhanced code of another class than the reply code is ignored."""
    found = _ENHANCED.match(text)
    if found and found[1][0] == str(code)[0]:
        return SmtpAnswer(code, found[1], text[found.end() :].strip())
    return SmtpAnswer(code, None, text.strip())


def classify(answer: SmtpAnswer, stage: Stage) -> Failure:
    """Return the outcome of an answer that refuses."""
    code = f"{answer.code} {answer.enhanced}" if answer.enhanced else str(answer.code)
    return outcome_of(
        OUTCOMES[_meaning(answer, stage)], Answer(status=answer.code, code=code, detail=answer.text)
    )


def redact(text: str, *, addresses: Iterable[str] = (), secrets: Iterable[str] = ()) -> str:
    """Return a server's text as one line, not long, without addresses, their parts or secrets."""
    line = _CONTROL.sub(" ", text)
    for secret in secrets:
        line = line.replace(secret, "[secret]")
    parts = [part for address in addresses for part in (address, *address.rpartition("@")[::2]) if part]
    for part in sorted(parts, key=len, reverse=True):
        line = re.sub(rf"(?<![\w-]){re.escape(part)}(?![\w-])", _HIDDEN, line, flags=re.IGNORECASE)
    line = _ADDRESS.sub(_HIDDEN, line)
    return " ".join(line.split())[:LONGEST_DETAIL]


def _meaning(answer: SmtpAnswer, stage: Stage) -> Meaning:
    found = _look_up(answer)
    if stage in {"recipient", "content"}:
        return found
    before = _BEFORE_THE_TARGET.get(found, found)
    if stage == "login":
        return "credentials" if before == "setup" else before
    # The message's size, and that its addresses need SMTPUTF8, are sent with the sender.
    of_the_message = answer.code == _TOO_LARGE or answer.enhanced in {"5.3.4", "5.6.7"}
    return "rejected" if of_the_message else before


def _look_up(answer: SmtpAnswer) -> Meaning:
    """Return the meaning of the most exact row: an enhanced code before a reply code, whole before a part."""
    reply, enhanced = str(answer.code), answer.enhanced or ""
    subject = enhanced.rpartition(".")[0]
    names = [f"{reply} {enhanced}", enhanced, f"{reply} {subject}", subject] if enhanced else []
    found = next((name for name in (*names, reply, reply[0]) if name in MEANINGS), "4")
    if found == "4.7" and _TOO_FAST.search(answer.text):
        return "rate"
    return MEANINGS[found]
