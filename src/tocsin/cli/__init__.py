"""The command line."""

import sys


def main() -> None:
    """Run `tocsin`."""
    try:
        from tocsin.cli.commands import run  # noqa: PLC0415 - without the server's packages, say so
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tocsin":
            raise
        sys.exit(
            f"tocsin: {error.name} is not installed; the server comes with: pip install 'tocsin[server]'"
        )
    run()
