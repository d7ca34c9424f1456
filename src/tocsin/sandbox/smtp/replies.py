"""The refusals of a mail server."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Stage = Literal["recipient", "content"]


class SmtpRefusal(msgspec.Struct, frozen=True):
    """The reply in place of 250, and the command after which it comes; `{address}` is the mailbox."""

    text: str
    stage: Stage = "recipient"


REFUSALS: Mapping[str, SmtpRefusal] = {
    "421 4.3.2": SmtpRefusal("The system is going down, closing the connection"),
    "421 4.7.0": SmtpRefusal("Too many messages from this sender, closing the connection"),
    "450 4.2.1": SmtpRefusal("<{address}>: mailbox temporarily unavailable"),
    "450 4.7.1": SmtpRefusal("<{address}>: too many messages, slow down"),
    "451 4.3.0": SmtpRefusal("Local error in processing, try again later", "content"),
    "451 4.3.2": SmtpRefusal("The system is not accepting messages now"),
    "451 4.7.1": SmtpRefusal("<{address}>: greylisted, try again later"),
    "452 4.2.2": SmtpRefusal("<{address}>: the mailbox is full"),
    "452 4.3.1": SmtpRefusal("Insufficient system storage", "content"),
    "454 4.7.0": SmtpRefusal("Temporary authentication failure"),
    "530 5.7.0": SmtpRefusal("Authentication required"),
    "534 5.7.9": SmtpRefusal("The authentication mechanism is too weak"),
    "535 5.7.8": SmtpRefusal("Authentication credentials invalid"),
    "550 5.1.1": SmtpRefusal("<{address}>: no such user here"),
    "550 5.1.2": SmtpRefusal("<{address}>: the domain does not exist"),
    "550 5.1.6": SmtpRefusal("<{address}>: the mailbox has moved"),
    "550 5.2.1": SmtpRefusal("<{address}>: the mailbox is disabled"),
    "550 5.7.1": SmtpRefusal("The message is refused by policy, {address} takes no bulk mail", "content"),
    "552 5.2.2": SmtpRefusal("<{address}>: the mailbox is full"),
    "552 5.3.4": SmtpRefusal("The message is too large", "content"),
    "553 5.1.3": SmtpRefusal("<{address}>: not a valid mailbox"),
    "553 5.1.8": SmtpRefusal("The sender's domain does not exist"),
    "554 5.6.0": SmtpRefusal("The content is refused", "content"),
    "556 5.1.10": SmtpRefusal("<{address}>: the domain takes no mail"),
}


def reply(code: str, address: str = "") -> str:
    """Return the reply line of a refusal."""
    return f"{code} {REFUSALS[code].text.format(address=address)}"
