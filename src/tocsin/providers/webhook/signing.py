"""The keys that webhooks are signed with, in the form of Standard Webhooks."""

import base64
import hmac
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

PREVIOUS_KEY_LIVES = timedelta(days=1)
"""How long a key that was replaced goes on signing beside the new one, unless another span is given."""
LONGEST_OVERLAP = timedelta(days=365)

_KEY_PREFIX = "whsec_"
_KEY_BYTES = 32
_SHORTEST_KEY = 24


def new_secret() -> str:
    """Generate the key that an endpoint's messages are signed with."""
    return _KEY_PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def rotated(secret: str, new_key: str, now: datetime, overlap: timedelta = PREVIOUS_KEY_LIVES) -> str:
    """Return a secret with a new key before the present one, which signs for the overlap; drop older ones.

    A secret is its keys with spaces between; a replaced key is followed by an @ and the second it expires.
    """
    present = secret.split(" ", maxsplit=1)[0]
    if not present or not overlap:
        return new_key
    return f"{new_key} {present}@{int((now + overlap).timestamp())}"


def signatures(secret: str, message_id: str, body: bytes, now: datetime) -> str:
    """Return the signatures of a message by every key that is in force.

    Raises ValueError for a secret that holds none.
    """
    signed = b"%b.%d.%b" % (message_id.encode(), int(now.timestamp()), body)
    digests = [hmac.digest(key, signed, "sha256") for key in _keys(secret, now)]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _keys(secret: str, now: datetime) -> Iterator[bytes]:
    for entry in secret.split(" "):
        text, _, end = entry.partition("@")
        if end and now.timestamp() >= int(end):
            continue
        key = base64.b64decode(text.removeprefix(_KEY_PREFIX), validate=True)
        if not text.startswith(_KEY_PREFIX) or len(key) < _SHORTEST_KEY:
            raise ValueError("a key begins with whsec_ and holds 24 bytes or more")
        yield key
