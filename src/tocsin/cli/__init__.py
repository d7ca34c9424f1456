"""The command line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def main() -> None:
    """Run `tocsin`."""
    with named_packages():
        from tocsin.cli.commands import run
    run()


@contextmanager
def named_packages() -> Iterator[None]:
    """Exit with the name of the extra if a package of the server is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tocsin":
            raise
        sys.exit(
            f"tocsin: {error.name} is not installed; the server comes with: pip install 'tocsin[server]'"
        )
