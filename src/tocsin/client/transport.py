"""Sending requests over HTTP, blocking or not."""

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec
from pyreqwest.client import BaseClientBuilder, ClientBuilder, SyncClientBuilder
from pyreqwest.exceptions import (
    ClientClosedError,
    ConnectError,
    ConnectTimeoutError,
    DetailedPyreqwestError,
    RequestError,
    RequestTimeoutError,
)
from pyreqwest.request import BaseRequestBuilder
from pyreqwest.response import BaseResponse

from tocsin.client.errors import ForkedError
from tocsin.client.exchange import ApiReply, ClientRequest, NoReply

CONNECT_SECONDS = 5.0

AnyClient = TypeVar("AnyClient")
AnyBuilder = TypeVar("AnyBuilder", bound=BaseClientBuilder)
AnyRequest = TypeVar("AnyRequest", bound=BaseRequestBuilder)


class Transport(Protocol):
    """Sends requests to Tocsin, or to a stand-in, in the caller's own thread."""

    def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Make one attempt."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class AsyncTransport(Protocol):
    """Sends requests to Tocsin, or to a stand-in, in an event loop."""

    async def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Make one attempt."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class ServerAddress(msgspec.Struct, frozen=True):
    """The address of a server and the certificate authority to trust there."""

    base_url: str
    ca_file: Path | None = None


class _Pool(Generic[AnyClient]):
    """An HTTP client with its connections, built by the first call: a process may fork before it."""

    def __init__(self, build: Callable[[], AnyClient]) -> None:
        self._build = build
        self._client: AnyClient | None = None
        self._pid = 0

    def opened(self) -> AnyClient | None:
        """Return the client of this process, if there is one."""
        return self._client if self._pid == os.getpid() else None

    def open(self) -> AnyClient:
        """Return the client of this process; build it on first use."""
        client = self.opened()
        if client is None:
            try:
                client = self._client = self._build()
            except RuntimeError as error:
                raise _forked_or(error) from error
            self._pid = os.getpid()
        return client


class HttpTransport:
    """Sends requests over pooled connections."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._pool = _Pool(lambda: _configured(SyncClientBuilder(), address).build())

    def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Make one attempt."""
        call = request.call
        building = self._pool.open().request(call.method, self._address.base_url + call.path)
        try:
            response = _filled(building, request).build().send()
            return _reply(response, bytes(response.bytes()))
        except RequestError as error:
            return _no_reply(error)

    def upload(self, request: ClientRequest, content_type: str, parts: Iterable[bytes]) -> ApiReply | NoReply:
        """Make one attempt with a body that is sent while it is read."""
        call = request.call
        building = self._pool.open().request(call.method, self._address.base_url + call.path)
        try:
            filled = _filled(building, request).header("Content-Type", content_type).body_stream(parts)
            response = filled.build().send()
            return _reply(response, bytes(response.bytes()))
        except RequestError as error:
            return _no_reply(error)

    def close(self) -> None:
        """Close every connection."""
        if client := self._pool.opened():
            client.close()


class AsyncHttpTransport:
    """Sends requests over pooled connections of an event loop."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._pool = _Pool(lambda: _configured(ClientBuilder(), address).build())

    async def send(self, request: ClientRequest) -> ApiReply | NoReply:
        """Make one attempt."""
        call = request.call
        building = self._pool.open().request(call.method, self._address.base_url + call.path)
        try:
            response = await _filled(building, request).build().send()
            return _reply(response, bytes(await response.bytes()))
        except RequestError as error:
            return _no_reply(error)

    async def close(self) -> None:
        """Close every connection."""
        if client := self._pool.opened():
            await client.close()


def _configured(builder: AnyBuilder, address: ServerAddress) -> AnyBuilder:
    builder = (
        builder.follow_redirects(enable=False)
        .error_for_status(enable=False)
        .connect_timeout(timedelta(seconds=CONNECT_SECONDS))
        .user_agent("tocsin-client")
    )
    if address.ca_file is not None:
        builder = builder.add_root_certificate_pem(address.ca_file.read_bytes())
    return builder


def _forked_or(error: RuntimeError) -> Exception:
    return ForkedError() if "fork" in str(error) else error


def _filled(building: AnyRequest, request: ClientRequest) -> AnyRequest:
    call = request.call
    building = building.header("Authorization", f"Bearer {request.secret.value}", is_sensitive=True)
    building = building.timeout(timedelta(seconds=request.timeout))
    if call.query:
        building = building.query(call.query)
    if call.body is not None:
        building = building.header("Content-Type", "application/json").body_bytes(call.body)
    return building


def _reply(response: BaseResponse, body: bytes) -> ApiReply:
    return ApiReply(
        status=response.status,
        body=body,
        retry_after=response.get_header("retry-after"),
        location=response.get_header("location"),
    )


def _no_reply(error: RequestError) -> NoReply:
    match error:
        case ClientClosedError():
            raise error
        case ConnectTimeoutError() | ConnectError():
            return NoReply(f"no connection to it could be made ({_cause(error)})")
        case RequestTimeoutError():
            return NoReply("it did not answer in time")
        case _:
            return NoReply(f"the connection broke before it had answered ({_cause(error)})")


def _cause(error: DetailedPyreqwestError) -> str:
    """Return the message of the innermost cause, the most specific one."""
    causes = error.details.get("causes") or [{"message": error.message}]
    return causes[-1]["message"]
