"""The trace context of W3C, by which a request continues the trace of its caller."""

import re

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")


def traceparent_of(text: str | None) -> str | None:
    """Return a text if it is a `traceparent`, otherwise None: a trace begins anew then."""
    return text if text is not None and _TRACEPARENT.fullmatch(text) else None


def trace_id_of(text: str | None) -> str | None:
    """Return a text as the id of a trace, if it is one: 32 hexadecimal digits, or those of a UUID."""
    digits = "" if text is None else text.replace("-", "").lower()
    return digits if _TRACE_ID.fullmatch(digits) else None
