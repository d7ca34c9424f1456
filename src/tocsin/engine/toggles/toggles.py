"""Whether a type, a channel or a provider is switched on, known at once and up to date within a second."""

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import count

import asyncpg
import structlog
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.provider import FeatureProvider
from openfeature.provider.no_op_provider import NoOpProvider

from tocsin.domain.errors import DatabaseError
from tocsin.domain.toggles import toggle_of, toggles_of
from tocsin.engine.toggles.flags import TableProvider, TogglesSettings, load_provider
from tocsin.store import toggles
from tocsin.store.pool import Connection, PoolSettings, connect

REMEMBERED_SECONDS = 1.0
REFRESH_SECONDS = 5.0
RECONNECT_AFTER = 0.5
ANSWER_WITHIN = 5.0

_log = structlog.stdlib.get_logger(__name__)
# The library logs every failed evaluation with its traceback; it is said below, once.
logging.getLogger("openfeature").setLevel(logging.CRITICAL)
# OpenFeature keeps its providers in one register a process, each under a domain.
_domains = count(1)


class Toggles:
    """Answers from memory; what is not remembered is evaluated through OpenFeature.

    What our table says is remembered until it changes, what a foreign provider says for a second.
    """

    def __init__(
        self,
        settings: TogglesSettings | None = None,
        *,
        changed: Callable[[], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        path = settings.provider if settings else None
        self._table = TableProvider()
        self._remembered_seconds = REMEMBERED_SECONDS if path else float("inf")
        self._changed = changed
        self._monotonic = monotonic
        self._domain = f"tocsin-{next(_domains)}"
        self._failing: set[str] = set()
        self._forget()
        _register(load_provider(path) if path else self._table, self._domain)
        self._client = api.get_client(self._domain)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have something called whenever our table says something new."""
        self._changed = changed

    def is_on(self, kind: str, channel: str) -> bool:
        """Tell whether a type may go by a channel."""
        return self.off_by(kind, channel) is None

    def off_by(self, kind: str, channel: str) -> str | None:
        """Name the toggle that keeps a type from going by a channel, if one does."""
        if self._monotonic() >= self._until:
            self._forget()
        try:
            return self._routes[kind, channel]
        except KeyError:
            context = EvaluationContext(attributes={"type": kind, "channel": channel})
            off = (name for name in toggles_of(kind, channel) if not self._evaluate(name, context))
            return self._routes.setdefault((kind, channel), next(off, None))

    def provider_on(self, name: str) -> bool:
        """Tell whether a provider may be used."""
        if self._monotonic() >= self._until:
            self._forget()
        try:
            return self._providers[name]
        except KeyError:
            context = EvaluationContext(attributes={"provider": name})
            return self._providers.setdefault(name, self._evaluate(toggle_of(name), context))

    async def load(self, connection: Connection) -> None:
        """Take over what our table says."""
        off = await toggles.off(connection)
        before = self._table.off
        if off == before:
            return
        self._table.off = off
        self._forget()
        _log.info("toggles changed", off=sorted(off - before), on=sorted(before - off))
        if self._changed:
            self._changed()

    def close(self) -> None:
        """Let go of the provider."""
        api.set_provider(NoOpProvider(), self._domain)

    def _forget(self) -> None:
        self._until = self._monotonic() + self._remembered_seconds
        self._routes: dict[tuple[str, str], str | None] = {}
        self._providers: dict[str, bool] = {}

    def _evaluate(self, name: str, context: EvaluationContext) -> bool:
        """Ask the provider; a toggle it does not know, or fails to evaluate, is on."""
        details = self._client.get_boolean_details(name, True, context)
        if details.error_code is None or details.error_code is ErrorCode.FLAG_NOT_FOUND:
            self._failing.discard(name)
        elif name not in self._failing:
            self._failing.add(name)
            _log.error(
                "a toggle cannot be evaluated and counts as on",
                toggle=name,
                code=details.error_code.value,
                error=details.error_message,
            )
        return details.value


def _register(provider: FeatureProvider, domain: str) -> None:
    try:
        api.set_provider_and_wait(provider, domain)
    except Exception as error:  # noqa: BLE001 - a foreign provider can raise anything
        # A flag service that is down must not keep Tocsin from starting: its toggles count as on.
        _log.error("the toggle provider did not start", error=f"{type(error).__name__}: {error}")


class ToggleWatch:
    """Keeps toggles up to date: by NOTIFY on a connection of its own, and by the clock as a fallback."""

    def __init__(
        self,
        watched: Toggles,
        url: str,
        schema: str,
        settings: PoolSettings,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        self._watched = watched
        self._url = url
        self._schema = schema
        self._settings = settings
        self._refresh_seconds = refresh_seconds
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled, connecting anew whenever the connection is lost."""
        while True:
            try:
                await self._watch()
            except (
                DatabaseError,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
                OSError,
            ) as error:
                _log.warning("watching toggles failed, the last known hold", error=str(error))
            self.listening.clear()
            await asyncio.sleep(RECONNECT_AFTER)

    async def _watch(self) -> None:
        connection = await connect(self._url, self._schema, self._settings)
        news = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: news.set())
            await connection.add_listener(f"{self._schema}_toggles", lambda *_: news.set())
            while not connection.is_closed():
                # Cleared before reading, so that what changes meanwhile is read again.
                news.clear()
                async with asyncio.timeout(ANSWER_WITHIN):
                    await self._watched.load(connection)
                self.listening.set()
                await _wait(news, self._refresh_seconds)
            _log.warning("the connection that watches toggles was lost")
        finally:
            connection.terminate()


async def _wait(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return
