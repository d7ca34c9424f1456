"""What the answers of mail servers mean, as a table.

An answer has a reply code (RFC 5321) and most have an enhanced status code (RFC 3463), which says more.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Literal, NamedTuple, assert_never

import msgspec

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry

RATE_REST = timedelta(minutes=1)
ALARM_REST = timedelta(minutes=5)
LONGEST_DETAIL = 300

Stage = Literal["hello", "login", "sender", "recipient", "content"]
"""How far a session had come: the target is named with `recipient`, and cannot be at fault before."""

Meaning = Literal["busy", "target_busy", "rate", "credentials", "setup", "rejected", "gone"]
"""What is the matter: the server or the mailbox for now, too fast a pace, the account, the sender's
own set-up, this message, or the mailbox for good."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row. An enhanced code may be whole (`5.1.1`) or end with its subject (`5.1`).

    `says` narrows a code that means two things by words in the answer's text.
    """

    code: int | None = None
    enhanced: str | None = None
    says: re.Pattern[str] | None = None
    means: Meaning


class Answer(NamedTuple):
    """A server's answer taken apart."""

    code: int
    enhanced: str | None
    text: str


_TOO_FAST = re.compile(r"too (many|much|fast)|\brate|\bthrottl|\bslow down|\blimit", re.IGNORECASE)

RULES = (
    Rule(enhanced="4.1", means="target_busy"),
    Rule(enhanced="4.2", means="target_busy"),
    Rule(enhanced="4.3", means="busy"),
    # The way from the server on to the mailbox: its own host does not answer.
    Rule(enhanced="4.4", means="target_busy"),
    Rule(code=421, enhanced="4.7", means="rate"),
    Rule(code=454, enhanced="4.7.0", means="busy"),
    Rule(enhanced="4.7", says=_TOO_FAST, means="rate"),
    # Greylisting, mostly: the same server takes the same mail some minutes later.
    Rule(enhanced="4.7", means="target_busy"),
    Rule(code=421, means="busy"),
    Rule(code=450, means="target_busy"),
    Rule(code=451, means="target_busy"),
    Rule(code=452, means="target_busy"),
    Rule(code=454, means="busy"),
    Rule(enhanced="5.1.1", means="gone"),
    Rule(enhanced="5.1.2", means="gone"),
    Rule(enhanced="5.1.3", means="gone"),
    Rule(enhanced="5.1.6", means="gone"),
    Rule(enhanced="5.1.10", means="gone"),
    Rule(enhanced="5.2.1", means="gone"),
    Rule(enhanced="5.1.7", means="setup"),
    Rule(enhanced="5.1.8", means="setup"),
    Rule(enhanced="5.3.4", means="rejected"),
    Rule(enhanced="5.7.3", means="credentials"),
    Rule(enhanced="5.7.8", means="credentials"),
    Rule(enhanced="5.7.9", means="credentials"),
    Rule(enhanced="5.7.11", means="credentials"),
    Rule(code=530, enhanced="5.7.0", means="credentials"),
    Rule(enhanced="5.7.1", means="rejected"),
    Rule(code=530, means="credentials"),
    Rule(code=534, means="credentials"),
    Rule(code=535, means="credentials"),
    Rule(code=538, means="credentials"),
    Rule(code=552, means="rejected"),
    Rule(code=556, means="gone"),
)

_TOO_LARGE = 552
_OF_A_CLASS: dict[int, Meaning] = {4: "busy", 5: "rejected"}
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")
_ADDRESS = re.compile(r"""[^\s<>"'(),;:=]+@[^\s<>"'(),;:=]+""")
_HIDDEN = "[address]"


def read_answer(code: int, text: str) -> Answer:
    """Take an answer apart; an enhanced code of another class than the reply code is none."""
    found = _ENHANCED.match(text)
    if found and found[1][0] == str(code)[0]:
        return Answer(code, found[1], text[found.end() :].strip())
    return Answer(code, None, text.strip())


def classify(answer: Answer, stage: Stage) -> Retry | Defer | Rejected | Gone:
    """Say what an answer that refuses means."""
    code = f"{answer.code} {answer.enhanced}" if answer.enhanced else str(answer.code)
    detail = answer.text
    meaning = _meaning(answer, stage)
    match meaning:
        case "busy":
            return Retry(code, detail)
        case "target_busy":
            return Retry(code, detail, speaks_against="target")
        case "rate":
            return Defer(code, RATE_REST, detail)
        case "credentials" | "setup":
            return Defer(code, ALARM_REST, detail, alarm=True)
        case "rejected":
            return Rejected(code, detail)
        case "gone":
            return Gone(code, detail)
        case _:
            assert_never(meaning)


def redact(text: str, *, addresses: Iterable[str] = (), secrets: Iterable[str] = ()) -> str:
    """Make a server's text fit to be kept: one line, not long, without addresses, their parts or secrets."""
    line = _CONTROL.sub(" ", text)
    for secret in secrets:
        line = line.replace(secret, "[secret]")
    parts = [part for address in addresses for part in (address, *address.rpartition("@")[::2]) if part]
    for part in sorted(parts, key=len, reverse=True):
        line = re.sub(rf"(?<![\w-]){re.escape(part)}(?![\w-])", _HIDDEN, line, flags=re.IGNORECASE)
    line = _ADDRESS.sub(_HIDDEN, line)
    return " ".join(line.split())[:LONGEST_DETAIL]


def _meaning(answer: Answer, stage: Stage) -> Meaning:
    found = _look_up(answer)
    if stage == "login":
        return "credentials" if found in {"rejected", "gone", "setup"} else _not_the_target(found)
    if stage in {"hello", "sender"}:
        # The message's size, and that its addresses need SMTPUTF8, are told with the sender.
        of_the_message = answer.code == _TOO_LARGE or answer.enhanced in {"5.3.4", "5.6.7"}
        return "rejected" if of_the_message else _not_the_target(found)
    return found


def _not_the_target(meaning: Meaning) -> Meaning:
    """Read a refusal that came before the target was named: every message would meet it."""
    match meaning:
        case "target_busy":
            return "busy"
        case "rejected" | "gone":
            return "setup"
        case _:
            return meaning


def _look_up(answer: Answer) -> Meaning:
    """Find the row that fits best: an enhanced code before a reply code, a whole one before its subject."""
    subject = answer.enhanced.rpartition(".")[0] if answer.enhanced else None
    for code, enhanced in (
        (answer.code, answer.enhanced),
        (None, answer.enhanced),
        (answer.code, subject),
        (None, subject),
        (answer.code, None),
    ):
        if code is None and enhanced is None:
            continue
        for rule in _ROWS.get((code, enhanced), ()):
            if rule.says is None or rule.says.search(answer.text):
                return rule.means
    return _OF_A_CLASS.get(answer.code // 100, "busy")


_ROWS: dict[tuple[int | None, str | None], list[Rule]] = {}
for _rule in RULES:
    _ROWS.setdefault((_rule.code, _rule.enhanced), []).append(_rule)
