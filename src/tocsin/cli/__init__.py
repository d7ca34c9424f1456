"""The command line."""

import sys


def main() -> None:
    """Run `tocsin`; if a package of the server is not installed, exit with the name of the extra.

    A command imports most packages only when it is called.
    """
    try:
        from tocsin.cli.commands import run

        run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tocsin":
            raise
        sys.exit(
            f"tocsin: {error.name} is not installed; the server comes with: pip install 'tocsin[server]'"
        )
