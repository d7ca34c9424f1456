from pathlib import Path
from typing import Annotated, Literal

import msgspec

from tocsin.sandbox.faults.rules import Latency, Seconds

Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a sandbox listens, what it keeps and its initial latency.

    Port 0 takes a free one. Without a folder, keys and certificates are kept in a temporary one
    and are new at every start; with a folder they stay the same, so clients need to trust them only once.
    """

    host: str = "127.0.0.1"
    http_port: Port = 0
    https_port: Port = 0
    smtp_port: Port = 0
    smtps_port: Port = 0
    folder: Path | None = None
    max_concurrent_streams: Count = 100
    access_token_seconds: Count = 3_599
    unknown_tokens: Literal["live", "unregistered"] = "live"
    record: Literal["messages", "counts"] = "messages"
    messages_per_phone: Count = 100
    messages_kept: Count = 10_000
    phones_kept: Count = 200_000
    latency: Latency | None = None
    receipts_after_seconds: Seconds = 0.0
    seed: int = 0
