"""Notices a peer that is gone, and one that sends nothing but noise."""

from tocsin.http2.errors import ConnectionFault, ErrorCode
from tocsin.http2.frames import ping_frame

PING_AFTER_SECONDS = 30.0
PING_SECONDS = 10.0
SETTINGS_SECONDS = 10.0
MOST_IDLE_FRAMES = 1_000
"""The most frames between two ticks that carry nothing: PING, SETTINGS, empty ones, interim answers."""

MOST_WINDOW_UPDATES = 10_000
"""The most WINDOW_UPDATE between two ticks: several for each stream that a connection can have."""

IDLE_FRAMES_PER_STREAM = 4
"""How many more there may be for each stream begun of late, such as a WINDOW_UPDATE after its end."""

_PING = b"tocsin-h"


class PeerGoneError(Exception):
    """The peer does not answer; its message says to what."""


class KeepAlive:
    """Pings a peer that was silent for long; `heard` is set with whatever comes from it."""

    def __init__(self, now: float) -> None:
        self.heard = True
        self._heard_at = now
        self._pinged_at: float | None = None
        self._settings_due: float | None = now + SETTINGS_SECONDS
        self._idle_frames = self._window_updates = 0
        self._streams_at_tick = self._streams_before = 0

    def count_idle_frame(self, streams: int) -> None:
        """Count a frame that carries nothing; too many for the streams begun so far are an attack."""
        self._idle_frames += 1
        allowed = MOST_IDLE_FRAMES + IDLE_FRAMES_PER_STREAM * (streams - self._streams_before)
        if self._idle_frames > allowed:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def count_window_update(self) -> None:
        """Count a WINDOW_UPDATE; a peer that sends more than streams need is an attack."""
        self._window_updates += 1
        if self._window_updates > MOST_WINDOW_UPDATES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many WINDOW_UPDATE frames")

    def settings_acknowledged(self) -> None:
        """Note that the peer has our SETTINGS."""
        self._settings_due = None

    def ping_acknowledged(self, payload: bytes) -> None:
        """Note that the peer answered a PING."""
        if payload == _PING:
            self._pinged_at = None

    def tick(self, now: float, streams: int) -> bytes:
        """Return the PING that is due, if any; raise for a peer that did not answer the last one in time.

        `streams` is how many were begun so far.
        """
        self._idle_frames = self._window_updates = 0
        self._streams_before, self._streams_at_tick = self._streams_at_tick, streams
        if self._settings_due is not None and now >= self._settings_due:
            raise ConnectionFault(ErrorCode.SETTINGS_TIMEOUT, "SETTINGS were not acknowledged")
        if self.heard:
            self.heard, self._heard_at, self._pinged_at = False, now, None
        elif self._pinged_at is not None:
            if now - self._pinged_at >= PING_SECONDS:
                raise PeerGoneError("PING was not answered")
        elif now - self._heard_at >= PING_AFTER_SECONDS:
            self._pinged_at = now
            return ping_frame(_PING, ack=False)
        return b""
