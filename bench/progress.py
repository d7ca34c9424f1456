"""What a run says while it goes on."""

import sys


def tell(words: str) -> None:
    """Show progress where it does not mix with the outcome."""
    print(words, file=sys.stderr, flush=True)
