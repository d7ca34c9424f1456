"""Secrets of a function: in a variable, or in the Parameter Store, from where a new value is read in time."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tocsin.aws.functions.results import RetryLaterError

KEPT_SECONDS = 300.0
ONE_TRY_MORE = {"total_max_attempts": 2, "mode": "standard"}


def aws_client(service: str, connections: int = 10) -> Any:
    """Return a client of a service that gives up in seconds; the region and the rest come from Lambda."""
    config = Config(connect_timeout=2, read_timeout=5, retries=ONE_TRY_MORE, max_pool_connections=connections)
    return boto3.client(service, config=config)


class Secret:
    """The value of a secret; one of the Parameter Store is kept for five minutes."""

    def __init__(self, value: str, parameter: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._value = value
        self._parameter = parameter
        self._monotonic = monotonic
        self._until = 0.0 if parameter else float("inf")
        self._lock = Lock()

    def __repr__(self) -> str:
        """Show nothing of the value."""
        return "Secret()"

    def forget(self) -> None:
        """Read the value again when it is next used: it was refused, so it may have been rotated."""
        if self._parameter:
            self._until = 0.0

    def get(self) -> str:
        """Return the value, or raise RetryLaterError if it cannot be read."""
        with self._lock:
            if self._until <= self._monotonic():
                self._value = self._read()
                self._until = self._monotonic() + KEPT_SECONDS
            return self._value

    def _read(self) -> str:
        try:
            found = aws_client("ssm").get_parameter(Name=self._parameter, WithDecryption=True)
        except ClientError as error:
            raise RetryLaterError(f"parameter_{error.response.get('Error', {}).get('Code')}") from None
        except (BotoCoreError, OSError) as error:
            raise RetryLaterError(f"parameter_{type(error).__name__}") from None
        value: str = found["Parameter"]["Value"]
        return value
