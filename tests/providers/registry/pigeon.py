"""A provider of another package: all that one has to write."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar

from tocsin.domain.delivery.message import Limits, Message
from tocsin.domain.delivery.outcome import Outcome, Sent
from tocsin.domain.faults import Fault
from tocsin.domain.people.device_tokens import DeviceRules
from tocsin.providers.answers import Answer, Rule, classify
from tocsin.providers.registry import KeptSecret, ProviderEntry
from tocsin.providers.settings import ProviderSettings

RULES = (
    Rule(code="NO_LOFT", outcome="gone"),
    Rule(code="HAWK", outcome="defer", pauses=True),
    Rule(outcome="retry"),
)

arrived: list[Message] = []


class PigeonSettings(ProviderSettings, frozen=True, kw_only=True):
    """Where pigeons fly from."""

    section: ClassVar[str] = "pigeon"

    loft: str | None = None
    """Where they live. Left out, none flies."""
    pigeons: int = 3
    """How many there are."""

    @property
    def is_configured(self) -> bool:
        return self.loft is not None

    def faults(self) -> Iterator[Fault]:
        if self.pigeons < 1:
            yield self.fault("pigeons", "too_small", "must be at least 1")
        yield from super().faults()


class PigeonProvider:
    name: ClassVar[str] = "pigeon"
    limits: ClassVar[Limits] = Limits(payload_bytes=100, batch=1, ttl_seconds=3_600)

    def __init__(self, settings: PigeonSettings, ring: str) -> None:
        self._settings = settings
        self.ring = ring

    @property
    def concurrency(self) -> int:
        return self._settings.pigeons

    async def prepare(self) -> None:
        """Nothing to fetch ahead."""

    async def send(self, batch: Sequence[Message], *, now: datetime) -> Sequence[Outcome]:  # noqa: ARG002
        arrived.extend(batch)
        return [self._fly(message) for message in batch]

    async def aclose(self) -> None:
        """Nothing to close."""

    def _fly(self, message: Message) -> Outcome:
        if message.target.endswith("nowhere"):
            return classify(Answer(status=0, code="NO_LOFT"), RULES)
        return Sent(f"{self.ring}-{message.delivery_id}")


def roof_fault(token: str) -> str | None:
    return None if re.fullmatch(r"roof:[a-z ]+", token) else "must be a roof, as roof:town hall"


ENTRY = ProviderEntry(
    title="Pigeons",
    channel="push",
    settings=PigeonSettings,
    build=PigeonProvider,
    devices=DeviceRules(token_fault=roof_fault),
    rate=50.0,
    secret=KeptSecret("pigeon_ring", lambda: "ring", lambda _: None),
    sandbox={"loft": "{host}"},
)

NO_ENTRY = PigeonProvider
OF_A_SECTION = ProviderEntry(
    title="HTTP",
    channel="push",
    settings=type("HttpSettings", (PigeonSettings,), {"section": "http"}, frozen=True, kw_only=True),
    build=PigeonProvider,
)
