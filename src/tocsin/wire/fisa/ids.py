"""The ids of what an event becomes for each of its recipients."""

import hashlib
import re

PLAIN_ID = re.compile(r"[!-~]{1,128}")
"""What SNS and SQS take as an id."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def message_key(event_id: str, user: str | None) -> str:
    """Return `{event_id}-{user}`, or `{event_id}` for everybody, if SNS takes that and it means nothing else.

    An id that is too long, has other than ASCII letters, digits and punctuation, or has dashes and is no UUID
    is hashed: event `a-b` for user `c` must not be taken for event `a` for user `b-c`.
    """
    written = event_id if user is None else f"{event_id}-{user}"
    if PLAIN_ID.fullmatch(written) and ("-" not in event_id or _UUID.fullmatch(event_id)):
        return written
    return hashed(f"{len(event_id)} {written}")


def hashed(text: str) -> str:
    """Return an id for a text that is none."""
    return hashlib.sha256(text.encode()).hexdigest()
