"""Calls of an AWS service by its JSON protocol."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from aiobotocore.session import AioSession, get_session
from botocore.exceptions import BotoCoreError, ClientError

from tocsin.domain.errors import TocsinError
from tocsin.providers.aws.errors import answered
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.aws.signing import AccessKey, RequestSigner

OK = 200
LARGEST_CODE = 100
NO_CREDENTIALS = "NoCredentials"
UNREADABLE = "UnreadableAnswer"

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class AwsCallError(TocsinError):
    """A call was not answered, or answered with an error.

    `code` is that of AWS, or the kind of the failure; the answer's own text stays out, it may quote ARNs.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _ErrorBody(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")


_error_body = msgspec.json.Decoder(_ErrorBody)


def utc() -> datetime:
    """Return the time by which requests are signed."""
    return datetime.now(UTC)


class AwsJsonCalls:
    """Makes calls to one service; each is made once, and whoever makes it decides whether it is repeated.

    A call that is cancelled closes its connection: a queue hands out no messages that nobody reads.
    """

    def __init__(
        self,
        settings: AwsSettings,
        service: str,
        endpoint: str,
        region: str,
        *,
        clock: Callable[[], datetime] = utc,
    ) -> None:
        self._settings = settings
        self._url = f"{endpoint.rstrip('/')}/"
        self._host = _host(endpoint)
        self._signer = RequestSigner(service, region)
        self._clock = clock
        self._chain: AioSession | None = None
        self._credentials: Any = None
        self._client: aiohttp.ClientSession | None = None

    async def call(
        self, target: str, fields: object, answer: msgspec.json.Decoder[T], *, wait: float = 0.0
    ) -> T:
        """Make a call, on which AWS may wait so many seconds, and decode its answer; raise AwsCallError."""
        body = _encoder.encode(fields)
        key = await self._key()
        headers = self._signer.headers(key, self._host, target, body, self._clock())
        timeout = aiohttp.ClientTimeout(
            total=self._settings.timeout + wait, sock_connect=self._settings.timeout
        )
        try:
            async with self._session().post(
                self._url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                received = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            # A timeout is an OSError.
            raise AwsCallError(type(error).__name__) from None
        if response.status != OK:
            raise AwsCallError(_code(response.status, received))
        return _decoded(received, answer)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _session(self) -> aiohttp.ClientSession:
        """Return the connections, which belong to the event loop of the first call."""
        if self._client is None:
            self._client = aiohttp.ClientSession(
                # With `trust_env` it would read the environment and a file for each request.
                proxy=_proxy(self._url),
                connector=aiohttp.TCPConnector(limit=0),
                headers={"user-agent": "tocsin"},
            )
        return self._client

    async def _key(self) -> AccessKey:
        """Return the credentials that are set, else those of AWS's usual chain, which renews them."""
        settings = self._settings
        if settings.access_key_id:
            return AccessKey(
                settings.access_key_id, settings.secret_access_key, settings.session_token or None
            )
        try:
            if self._credentials is None:
                self._chain = self._chain or get_session()
                self._credentials = await self._chain.get_credentials()
            found = self._credentials and await self._credentials.get_frozen_credentials()
        except ClientError as error:
            # STS answered, by which a role gets its credentials.
            code = answered(error).code[:LARGEST_CODE]
            raise AwsCallError(code if code.isalnum() else type(error).__name__) from None
        except Exception as error:  # noqa: BLE001 - the chain raises errors of several libraries
            raise AwsCallError(type(error).__name__) from None
        if not found or not found.access_key:
            raise AwsCallError(NO_CREDENTIALS)
        return AccessKey(found.access_key, found.secret_key, found.token)


def default_region() -> str:
    """Return the region of AWS's usual chain of settings, or nothing."""
    try:
        return str(get_session().get_config_variable("region") or "")
    except (BotoCoreError, OSError):
        return ""


def _proxy(url: str) -> str | None:
    """Return the proxy of the environment for an address, if there is one."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _host(endpoint: str) -> str:
    """Return the host as the client sends it: without a port that is the usual one."""
    parts = urlsplit(endpoint)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.netloc.rpartition(":")[0] if parts.port == usual else parts.netloc


def _decoded(received: bytes, answer: msgspec.json.Decoder[T]) -> T:
    try:
        return answer.decode(received)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # Half a surrogate pair in one message must not keep the others of its answer from being read.
    try:
        decoded: T = msgspec.convert(json.loads(received), answer.type)
    except (ValueError, RecursionError):
        raise AwsCallError(UNREADABLE) from None
    return decoded


def _code(status: int, body: bytes) -> str:
    """Return the code of an error, such as `QueueDoesNotExist`; without one, its status."""
    try:
        code = _error_body.decode(body).type.rpartition("#")[2]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        code = ""
    return code[:LARGEST_CODE] if code.isalnum() else f"status {status}"
