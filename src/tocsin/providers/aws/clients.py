"""The clients of AWS services, opened once and kept."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from tocsin.providers.aws.settings import AwsSettings

Service: TypeAlias = Literal["sns", "sqs", "s3"]

# At the level debug they log whole requests, with tokens and endpoints.
for _name in ("aiobotocore", "botocore"):
    logging.getLogger(_name).setLevel(logging.WARNING)

LONG_POLL_SECONDS = 20.0
"""For so long SQS holds a request that asks it to wait for messages."""


class AwsClients:
    """Opens a client of each service when it is first asked for, and closes them all at the end.

    A request is made once: whoever makes it decides whether and when it is repeated. `ca_file` is a
    certificate authority to trust instead of the usual ones, for a sandbox.
    """

    def __init__(self, settings: AwsSettings, *, ca_file: Path | None = None) -> None:
        self._settings = settings
        self._ca_file = ca_file
        self._session = get_session()
        self._exits = AsyncExitStack()
        self._opened: dict[Service, Any] = {}
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every client."""
        self._opened.clear()
        await self._exits.aclose()

    async def client(self, service: Service) -> Any:
        """Return the client of a service."""
        if (opened := self._opened.get(service)) is not None:
            return opened
        async with self._lock:
            if service not in self._opened:
                self._opened[service] = await self._exits.enter_async_context(self._client(service))
            return self._opened[service]

    def _client(self, service: Service) -> Any:
        settings = self._settings
        waiting = LONG_POLL_SECONDS if service == "sqs" else 0.0
        return self._session.create_client(
            service,
            region_name=settings.region or None,
            endpoint_url=settings.endpoint_url or None,
            verify=str(self._ca_file) if self._ca_file else None,
            aws_access_key_id=settings.access_key_id or None,
            aws_secret_access_key=settings.secret_access_key or None,
            aws_session_token=settings.session_token or None,
            config=AioConfig(
                connect_timeout=settings.timeout,
                read_timeout=settings.timeout + waiting,
                max_pool_connections=settings.max_connections,
                retries={"total_max_attempts": 1},
                user_agent_extra="tocsin",
            ),
        )
