"""Whether this process records traces; nothing is imported for them otherwise."""

from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from tocsin.telemetry.tracer import Tracer


class Tracing:
    """The tracer of this process, if it has one."""

    tracer: Optional["Tracer"] = None


tracing: Final = Tracing()
