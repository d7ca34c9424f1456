"""Topics of FCM, and the conditions that combine them in FCM's grammar."""

import re
from typing import Annotated

from msgspec import Meta

MOST_TOPICS = 5

Topic = Annotated[str, Meta(min_length=1, max_length=900, pattern=r"^[a-zA-Z0-9\-_.~%]+\Z")]
# A condition is part of the ordering key, and an index entry is limited to 2.7 kB.
Condition = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"^[\x20-\x7e]+\Z")]

_TOKEN = re.compile(r" *(?:(?P<topic>'[a-zA-Z0-9\-_.~%]+' *in +topics\b)|(?P<operator>&&|\|\||[!()]))")


def condition_fault(condition: str) -> str | None:
    """Return what is wrong with a condition such as `'a' in topics && !('b' in topics)`, if anything."""
    at, depth, topics = 0, 0, 0
    wants_topic = True
    end = len(condition.rstrip(" "))
    while at < end:
        found = _TOKEN.match(condition, at)
        if found is None:
            return f"cannot be parsed from character {at + 1}; write it as 'a' in topics && !('b' in topics)"
        token, operator = found[0].lstrip(), found["operator"]
        opens = operator in {"!", "("}
        if wants_topic != (operator is None or opens):
            return f"{token} is not allowed at character {found.end() - len(token) + 1}"
        if operator is None:
            topics += 1
        depth += {"(": 1, ")": -1}.get(operator or "", 0)
        if depth < 0:
            return f"closes a parenthesis at character {found.end()} that was not opened"
        wants_topic = opens or operator in {"&&", "||"}
        at = found.end()
    if wants_topic:
        return "ends where a topic is expected"
    if depth:
        return "leaves a parenthesis open"
    if topics > MOST_TOPICS:
        return f"has {topics} topics; FCM allows {MOST_TOPICS}"
    return None
