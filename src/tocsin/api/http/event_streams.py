"""Server-Sent Events: the beginning of a response that does not end."""

from collections.abc import Mapping

EVENT_STREAM = "text/event-stream"


def event_stream_start(more: Mapping[str, str]) -> dict[str, object]:
    """Build the beginning of a response of Server-Sent Events, which no proxy is to buffer."""
    headers = [
        (b"content-type", f"{EVENT_STREAM}; charset=utf-8".encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        *((name.lower().encode(), value.encode("latin-1")) for name, value in more.items()),
    ]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def event(name: str, data: str) -> bytes:
    """Build an event; its data may have several lines."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
