"""Carrying requests over HTTP, blocking or not; what is sent and how answers are read is one for both."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from pyreqwest.client import BaseClientBuilder, Client, ClientBuilder, SyncClient, SyncClientBuilder
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
from tocsin.client.exchange import Lost, Reply, Request

CONNECT_SECONDS = 5.0

AnyBuilder = TypeVar("AnyBuilder", bound=BaseClientBuilder)
AnyRequest = TypeVar("AnyRequest", bound=BaseRequestBuilder)


class Transport(Protocol):
    """Carries requests to Tocsin, or to what stands in for it, in the caller's own thread."""

    def carry(self, request: Request) -> Reply | Lost:
        """Make one attempt."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...


class AsyncTransport(Protocol):
    """Carries requests to Tocsin, or to what stands in for it, beside other work."""

    async def carry(self, request: Request) -> Reply | Lost:
        """Make one attempt."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...


class Place(msgspec.Struct, frozen=True):
    """Where Tocsin is and whom to trust there."""

    base_url: str
    ca_file: Path | None = None


class HttpTransport:
    """Carries requests over pooled connections, made by the first call: a process may fork before it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: SyncClient | None = None
        self._pid = 0

    def carry(self, request: Request) -> Reply | Lost:
        """Make one attempt."""
        client = self._connected()
        call = request.call
        building = _filled(client.request(call.method, self._place.base_url + call.path), request)
        try:
            response = building.build().send()
            return _reply(response, bytes(response.bytes()))
        except RequestError as error:
            return _lost(error)

    def close(self) -> None:
        """Let go of every connection."""
        if self._client and self._pid == os.getpid():
            self._client.close()

    def _connected(self) -> SyncClient:
        if self._client is None or self._pid != os.getpid():
            try:
                self._client = _configured(SyncClientBuilder(), self._place).build()
            except RuntimeError as error:
                raise _forked_or(error) from error
            self._pid = os.getpid()
        return self._client


class AsyncHttpTransport:
    """Carries requests over pooled connections, made by the first call: a process may fork before it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: Client | None = None
        self._pid = 0

    async def carry(self, request: Request) -> Reply | Lost:
        """Make one attempt."""
        client = self._connected()
        call = request.call
        building = _filled(client.request(call.method, self._place.base_url + call.path), request)
        try:
            response = await building.build().send()
            return _reply(response, bytes(await response.bytes()))
        except RequestError as error:
            return _lost(error)

    async def close(self) -> None:
        """Let go of every connection."""
        if self._client and self._pid == os.getpid():
            await self._client.close()

    def _connected(self) -> Client:
        if self._client is None or self._pid != os.getpid():
            try:
                self._client = _configured(ClientBuilder(), self._place).build()
            except RuntimeError as error:
                raise _forked_or(error) from error
            self._pid = os.getpid()
        return self._client


def _configured(builder: AnyBuilder, place: Place) -> AnyBuilder:
    builder = (
        builder.follow_redirects(enable=False)
        .error_for_status(enable=False)
        .connect_timeout(timedelta(seconds=CONNECT_SECONDS))
        .user_agent("tocsin-client")
    )
    if place.ca_file is not None:
        builder = builder.add_root_certificate_pem(place.ca_file.read_bytes())
    return builder


def _forked_or(error: RuntimeError) -> Exception:
    return ForkedError() if "fork" in str(error) else error


def _filled(building: AnyRequest, request: Request) -> AnyRequest:
    call = request.call
    building = building.header("Authorization", f"Bearer {request.secret.value}", is_sensitive=True)
    building = building.timeout(timedelta(seconds=request.timeout))
    if call.query:
        building = building.query(call.query)
    if call.body is not None:
        building = building.header("Content-Type", "application/json").body_bytes(call.body)
    return building


def _reply(response: BaseResponse, body: bytes) -> Reply:
    return Reply(
        status=response.status,
        body=body,
        retry_after=response.get_header("retry-after"),
        location=response.get_header("location"),
    )


def _lost(error: RequestError) -> Lost:
    match error:
        case ClientClosedError():
            raise error
        case ConnectTimeoutError() | ConnectError():
            return Lost(f"no connection to it could be made ({_cause(error)})")
        case RequestTimeoutError():
            return Lost("it did not answer in time")
        case _:
            return Lost(f"the connection broke before it had answered ({_cause(error)})")


def _cause(error: DetailedPyreqwestError) -> str:
    """Name the innermost cause, which says more than the outermost."""
    causes = error.details.get("causes") or [{"message": error.message}]
    return causes[-1]["message"]
