"""Signature Version 4 of requests in AWS's JSON protocol.

The client of `aiobotocore` takes several times the CPU of such a request: too much for queues, where one
request reads ten messages at most and another deletes them.
"""

import hashlib
import hmac
from datetime import datetime
from typing import NamedTuple

CONTENT_TYPE = "application/x-amz-json-1.0"
_ALGORITHM = "AWS4-HMAC-SHA256"


class AccessKey(NamedTuple):
    """The credentials of a request; temporary ones have a token."""

    id: str
    secret: str
    token: str | None = None

    def __repr__(self) -> str:
        """Show no credentials."""
        return "AccessKey(…)"


class RequestSigner:
    """Signs requests to one service in one region; the key of a day is derived once."""

    def __init__(self, service: str, region: str) -> None:
        self._scope = f"{region}/{service}/aws4_request"
        self._parts = (region, service, "aws4_request")
        self._derived: tuple[AccessKey, str, bytes] | None = None

    def headers(self, key: AccessKey, host: str, target: str, body: bytes, now: datetime) -> dict[str, str]:
        """Return the headers of a POST of `body` to `/`; `now` is in UTC."""
        at = now.strftime("%Y%m%dT%H%M%SZ")
        signed = {"content-type": CONTENT_TYPE, "host": host, "x-amz-date": at}
        if key.token:
            signed["x-amz-security-token"] = key.token
        signed["x-amz-target"] = target
        names = ";".join(signed)
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{at[:8]}/{self._scope}"
        text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key_of(key, at[:8]), text.encode(), "sha256").hex()
        credential = f"Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return signed | {"authorization": f"{_ALGORITHM} {credential}"}

    def _key_of(self, key: AccessKey, day: str) -> bytes:
        if self._derived is not None and self._derived[:2] == (key, day):
            return self._derived[2]
        derived = f"AWS4{key.secret}".encode()
        for part in (day, *self._parts):
            derived = hmac.digest(derived, part.encode(), "sha256")
        self._derived = (key, day, derived)
        return derived
