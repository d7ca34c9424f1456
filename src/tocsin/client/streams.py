"""Appends intents to a stream of Redis, from which Tocsin reads them.

Each call is one `XADD`: nothing is trimmed, and it is sent once even over a client that retries commands by
itself, as those of redis-py do by default. A failure is an exception of its own, so that the caller decides;
the transaction in which the event happened need not know of it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Required, TypedDict, Unpack, cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from tocsin.client.errors import AppendFailedError, RefusedError
from tocsin.wire.streams.intents import DEFAULT_STREAM, EntryFaultsError, read_fields, write_fields


class StreamParticulars(TypedDict, total=False):
    """The fields of an intent besides its type: without `users` it is for the type's administrators."""

    users: Sequence[str] | None
    payload: Required[Mapping[str, Any]]
    idempotency_key: Required[str]
    occurred_at: datetime | None
    request_id: str | None
    trace_id: str | None


class StreamProducer:
    """Appends intents of one producer, for threads; the client of Redis stays the caller's."""

    def __init__(self, redis: Redis, producer: str, *, stream: str = DEFAULT_STREAM) -> None:
        self._redis = redis
        self._producer = producer
        self._stream = stream

    def append(
        self,
        type: str,  # noqa: A002 - the field of an intent
        **particulars: Unpack[StreamParticulars],
    ) -> str:
        """Append an intent and return the id of its entry; raise RefusedError for one that is not valid."""
        fields = checked_fields(self._producer, type, particulars)
        pool: Any = self._redis.connection_pool  # parts of it have no types
        try:
            # The client would send a command again whose answer was lost; a connection does not.
            connection = pool.get_connection()
            try:
                connection.send_command(*_command(self._stream, fields))
                entry_id = connection.read_response()
            finally:
                pool.release(connection)
        except (RedisError, OSError) as error:
            raise _failed(self._stream, fields, error) from error
        return _text(entry_id)


class AsyncStreamProducer:
    """Appends intents of one producer, for event loops; the client of Redis stays the caller's."""

    def __init__(self, redis: AsyncRedis, producer: str, *, stream: str = DEFAULT_STREAM) -> None:
        self._redis = redis
        self._producer = producer
        self._stream = stream

    async def append(
        self,
        type: str,  # noqa: A002 - the field of an intent
        **particulars: Unpack[StreamParticulars],
    ) -> str:
        """Append an intent and return the id of its entry; raise RefusedError for one that is not valid."""
        fields = checked_fields(self._producer, type, particulars)
        pool: Any = self._redis.connection_pool  # parts of it have no types
        try:
            # The client would send a command again whose answer was lost; a connection does not.
            connection = await pool.get_connection()
            try:
                await connection.send_command(*_command(self._stream, fields))
                entry_id = await connection.read_response()
            finally:
                await pool.release(connection)
        except (RedisError, OSError) as error:
            raise _failed(self._stream, fields, error) from error
        return _text(entry_id)


def checked_fields(producer: str, type_name: str, given: StreamParticulars) -> dict[str, str]:
    """Build the fields of an entry; raise RefusedError, with every fault, if Tocsin would refuse them.

    Whether the type exists and the payload fits it is known to Tocsin alone.
    """
    occurred_at = given.get("occurred_at") or datetime.now(UTC)
    if occurred_at.tzinfo is None:
        raise ValueError("occurred_at must have a time zone")
    try:
        fields = write_fields(
            type_name,
            producer=producer,
            users=given.get("users"),
            payload=given["payload"],
            idempotency_key=given["idempotency_key"],
            occurred_at=occurred_at,
            request_id=given.get("request_id"),
            trace_id=given.get("trace_id"),
        )
        read_fields(fields)
    except EntryFaultsError as error:
        raise RefusedError("invalid_intent", "the entry is not valid", error.faults) from error
    return fields


def _command(stream: str, fields: Mapping[str, str]) -> tuple[str, ...]:
    return ("XADD", stream, "*", *chain.from_iterable(fields.items()))


def _failed(stream: str, fields: Mapping[str, str], error: Exception) -> AppendFailedError:
    return AppendFailedError(stream, fields["idempotency_key"], type(error).__name__)


def _text(entry_id: object) -> str:
    return entry_id.decode() if isinstance(entry_id, bytes) else cast("str", entry_id)
