"""Hands a record to the gateway, which passes it on to the sessions of the people that it is for."""

from collections.abc import Iterable
from threading import Lock
from typing import Any

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tocsin.aws.functions.envelopes import open_record
from tocsin.aws.functions.logs import FunctionLog
from tocsin.aws.functions.parameters import Secret
from tocsin.aws.functions.records import Record
from tocsin.aws.functions.results import NeverDeliveredError, RetryLaterError
from tocsin.wire.fisa.envelope import FisaEnvelope, encode_envelope
from tocsin.wire.streams.client_events import encode_client_event

PIPELINE_BYTES = 1_048_576

_log = FunctionLog(__name__)


class WebDelivery:
    """Appends to a stream an entry for each recipient, with the envelope as a JSON object."""

    def __init__(self, url: Secret, stream: str, max_len: int) -> None:
        self._url = url
        self._stream = stream
        self._max_len = max_len
        self._clients: dict[str, Redis] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def deliver(self, record: Record) -> None:
        """Append the entries of a record, or raise RetryLaterError or NeverDeliveredError."""
        envelope, users = open_record(record)
        if users:
            # What is too large for one is appended for nobody, or it would be repeated to the others.
            _entry(envelope, max(users, key=_encoded_size))
            self._append(_entry(envelope, user_id) for user_id in users)
            _log.info("message appended", recipients=len(users))

    def _append(self, entries: Iterable[dict[Any, Any]]) -> None:
        """Append entries, some at a time: all of a large envelope for many would not fit into memory."""
        waiting = 0
        try:
            pipeline = self._client().pipeline(transaction=False)
            for entry in entries:
                pipeline.xadd(self._stream, entry, maxlen=self._max_len, approximate=True)
                waiting += sum(map(len, entry.values()))
                if waiting >= PIPELINE_BYTES:
                    pipeline.execute()
                    waiting = 0
            pipeline.execute()
        except (RedisError, OSError, ValueError) as error:
            # The address, with its password, may have changed.
            self._url.forget()
            raise RetryLaterError(f"redis_{type(error).__name__}") from None

    def _client(self) -> Redis:
        """Return the client of the address as it is now."""
        address = self._url.get()
        with self._lock:
            if address not in self._clients:
                self.close()
                # Once more: the server closes connections that were idle while the function was frozen.
                client = Redis.from_url(
                    address, socket_connect_timeout=2, socket_timeout=5, retry=Retry(NoBackoff(), 1)
                )
                self._clients = {address: client}
            return self._clients[address]


def _encoded_size(user_id: str) -> int:
    return len(msgspec.json.encode(user_id))


def _entry(envelope: FisaEnvelope, user_id: str) -> dict[bytes, bytes]:
    """Build the entry of one person, who is not shown the other recipients.

    Its `event_id` is the same at every attempt, so that a client can drop a repeat.
    """
    own = msgspec.structs.replace(envelope, recipients=[user_id])
    try:
        return encode_client_event(
            user_id=user_id,
            event_type=envelope.event_type,
            event_id=f"{envelope.event_id}/push:user:{user_id}",
            payload=encode_envelope(own),
            trace_id=envelope.correlation_id or "",
        )
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise NeverDeliveredError("no_client_event", type(error).__name__) from None
