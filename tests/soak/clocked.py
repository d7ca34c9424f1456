"""Runs a command of Tocsin with a clock that is wrong by SOAK_CLOCK_OFFSET seconds."""

import os
from datetime import UTC, datetime, timedelta

from tocsin.engine import clock

OFFSET = "SOAK_CLOCK_OFFSET"


def main() -> None:
    """Replace the clock before any other module imports it, then run the command."""
    offset = timedelta(seconds=float(os.environ[OFFSET]))

    def utc_now() -> datetime:
        return datetime.now(UTC) + offset

    clock.utc_now = utc_now
    from tocsin.cli import main as run
    from tocsin.compose import providers, worker

    assert vars(providers)["utc_now"] is vars(worker)["utc_now"] is utc_now
    run()


if __name__ == "__main__":
    main()
