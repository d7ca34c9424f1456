"""Whether a type, a channel or a provider is switched on: answered from memory, at most a second old."""

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import count

import structlog
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.provider import FeatureProvider
from openfeature.provider.no_op_provider import NoOpProvider

from tocsin.domain.toggles import toggle_of, toggles_of
from tocsin.engine.duty import repeat
from tocsin.engine.listen import RECONNECT_SECONDS, listen
from tocsin.engine.toggles.flags import TableProvider, load_provider
from tocsin.engine.toggles.settings import TogglesSettings
from tocsin.store import toggles
from tocsin.store.pool import Connection, PoolSettings, connect, opened_connection

CACHE_SECONDS = 1.0
REFRESH_SECONDS = 5.0
LOAD_TIMEOUT = 5.0

_log = structlog.stdlib.get_logger(__name__)
# The library logs every failed evaluation with its traceback; `_evaluate` logs it once.
logging.getLogger("openfeature").setLevel(logging.CRITICAL)
# OpenFeature keeps its providers in one registry per process, each under a domain.
_domains = count(1)


class Toggles:
    """Evaluates toggles through OpenFeature and caches the results.

    Results from our table are cached until it changes, those of another provider for a second.
    """

    def __init__(
        self, settings: TogglesSettings | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        path = settings.provider if settings else None
        self._table = TableProvider()
        self._cache_seconds = CACHE_SECONDS if path else float("inf")
        self._changed: Callable[[], None] | None = None
        self._monotonic = monotonic
        self._domain = f"tocsin-{next(_domains)}"
        self._failing: set[str] = set()
        self._clear_cache()
        _register(load_provider(path) if path else self._table, self._domain)
        self._client = api.get_client(self._domain)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever our table has changed."""
        self._changed = changed

    def is_on(self, type_: str, channel: str) -> bool:
        """Return whether a type may be sent by a channel."""
        return self.off_by(type_, channel) is None

    def off_by(self, type_: str, channel: str) -> str | None:
        """Return the toggle that switches a type off for a channel, or None if it is on."""
        if self._monotonic() >= self._cached_until:
            self._clear_cache()
        try:
            return self._routes[type_, channel]
        except KeyError:
            context = EvaluationContext(attributes={"type": type_, "channel": channel})
            off = (name for name in toggles_of(type_, channel) if not self._evaluate(name, context))
            return self._routes.setdefault((type_, channel), next(off, None))

    def provider_on(self, name: str) -> bool:
        """Return whether a provider is switched on."""
        if self._monotonic() >= self._cached_until:
            self._clear_cache()
        try:
            return self._providers[name]
        except KeyError:
            context = EvaluationContext(attributes={"provider": name})
            return self._providers.setdefault(name, self._evaluate(toggle_of(name), context))

    async def load(self, connection: Connection) -> None:
        """Load what is off from our table."""
        off = await toggles.off(connection)
        before = self._table.off
        if off == before:
            return
        self._table.off = off
        self._clear_cache()
        _log.info("toggles changed", off=sorted(off - before), on=sorted(before - off))
        if self._changed:
            self._changed()

    def close(self) -> None:
        """Unregister the provider, which shuts it down."""
        api.set_provider(NoOpProvider(), self._domain)

    def _clear_cache(self) -> None:
        self._cached_until = self._monotonic() + self._cache_seconds
        self._routes: dict[tuple[str, str], str | None] = {}
        self._providers: dict[str, bool] = {}

    def _evaluate(self, name: str, context: EvaluationContext) -> bool:
        """Evaluate a toggle; one that is unknown or cannot be evaluated is on."""
        details = self._client.get_boolean_details(name, True, context)
        if details.error_code is None or details.error_code is ErrorCode.FLAG_NOT_FOUND:
            self._failing.discard(name)
        elif name not in self._failing:
            self._failing.add(name)
            _log.error(
                "toggle evaluation failed",
                toggle=name,
                code=details.error_code.value,
                error=details.error_message,
                used="on",
            )
        return details.value


def _register(provider: FeatureProvider, domain: str) -> None:
    try:
        api.set_provider_and_wait(provider, domain)
    except Exception as error:  # noqa: BLE001 - a foreign provider can raise anything
        # A flag service that is down must not keep Tocsin from starting: its toggles evaluate as on.
        _log.error("toggle provider failed to start", error=f"{type(error).__name__}: {error}")


class ToggleWatch:
    """Reloads toggles at each NOTIFY, and every `refresh_seconds` as a fallback.

    While the database cannot be reached, the last known toggles hold.
    """

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
        """Watch until cancelled."""
        await repeat(self._listen, name="toggle watch", every=RECONNECT_SECONDS)

    async def _listen(self) -> None:
        opened = opened_connection(connect(self._url, self._schema, self._settings))
        channel = f"{self._schema}_toggles"
        try:
            await listen(opened, channel, self._load, refresh_seconds=self._refresh_seconds)
        finally:
            self.listening.clear()

    async def _load(self, connection: Connection, _: object) -> None:
        async with asyncio.timeout(LOAD_TIMEOUT):
            await self._watched.load(connection)
        self.listening.set()
