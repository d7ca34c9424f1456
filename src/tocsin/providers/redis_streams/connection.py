"""One connection to Redis that stays open, and pipelines of commands over it."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.redis_streams.settings import StreamProviderSettings

Answer = bytes | ResponseError


class LostError(Exception):
    """The connection failed, or the time is over, after some answers.

    `sent` means that the commands without an answer may have been carried out.
    """

    def __init__(self, cause: BaseException, answers: Sequence[Answer], *, sent: bool) -> None:
        super().__init__(type(cause).__name__)
        self.answers = answers
        self.sent = sent


class RedisConnection:
    """Runs one pipeline at a time; it connects again when the connection was lost."""

    def __init__(self, settings: StreamProviderSettings) -> None:
        is_tls = settings.url.startswith("rediss:")
        tls = {"ssl_ca_certs": str(settings.ca_file)} if settings.ca_file and is_tls else {}
        try:
            # The lock leaves it with one connection, which it checks before each use.
            self._pool = ConnectionPool.from_url(
                settings.url,
                # One time-out for the whole pipeline instead of one for each answer.
                socket_timeout=None,
                socket_connect_timeout=settings.timeout,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                **tls,
            )
            # Options in an address are checked by the connection alone.
            self._pool.make_connection()  # type: ignore[no-untyped-call]
        except (TypeError, ValueError, RedisError) as error:
            # Not quoted: it may hold a password.
            raise ProviderSetupError(f"{settings.section}.url is not an address of Redis.") from error
        self._timeout = settings.timeout
        self._lock = asyncio.Lock()
        self._time_outs = 0

    async def run(self, commands: Sequence[bytes]) -> Sequence[Answer]:
        """Send packed commands in one write and return the answer of each, or raise LostError.

        Each command is carried out or refused by itself: a pipeline is no transaction. It waits for its turn
        for as long as it may take then; after a time-out of another nothing is sent into the same silence.
        """
        answers: list[Answer] = []
        sent, time_outs = False, self._time_outs
        try:
            async with asyncio.timeout(self._timeout) as deadline, self._lock:
                if time_outs != self._time_outs:
                    raise RedisTimeoutError("Redis did not answer the commands before these")
                deadline.reschedule(asyncio.get_running_loop().time() + self._timeout)
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    sent = True
                    await connection.send_packed_command([b"".join(commands)])
                    while len(answers) < len(commands):
                        answers.append(await _answer(connection))
                finally:
                    if len(answers) < len(commands) or _is_replica(answers):
                        # Answers under way would be taken for those of the next commands; and after a
                        # failover the name of the server may lead to another one.
                        await connection.disconnect(nowait=True)
                    await self._pool.release(connection)
        except (RedisError, OSError, TimeoutError) as error:
            if sent and isinstance(error, TimeoutError):
                self._time_outs += 1
            raise LostError(error, answers, sent=sent) from error
        return answers

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pool.aclose()


async def _answer(connection: Connection) -> Answer:
    try:
        answer: object = await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error
    if not isinstance(answer, bytes):
        raise InvalidResponse(f"an entry id was expected, not {type(answer).__name__}")
    return answer


def _is_replica(answers: Sequence[Answer]) -> bool:
    return isinstance(answers[-1], ReadOnlyError)
