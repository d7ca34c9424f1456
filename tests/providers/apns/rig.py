"""What the tests of APNs share: the provider, its stand-in and a clock that can be moved."""

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.providers.conformance import CannedAnswer, Rig, send_to
from tocsin.domain.delivery.outcome import Sent
from tocsin.providers.apns.provider import ApnsProvider
from tocsin.providers.apns.settings import ApnsSettings
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.apns.service import Apns

TOPIC = "com.example.shop"
MINUTE = 60.0
HOUR = 3_600.0


class MovableClock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class ApnsRig(Rig):
    service = "apns"
    busy = Refuse("ServiceUnavailable", retry_after=7)
    # Apple has no quota of a sender; this is the one answer that tells the whole provider to wait.
    quota = Refuse("TooManyProviderTokenUpdates", retry_after=90)
    gone = Refuse("Unregistered")
    rejected = Refuse("BadPriority")

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        super().__init__(sandbox)
        self.stand_in = stand_in(sandbox)
        self.clock = MovableClock()
        self.key_file = self.stand_in.write_key(folder / "AuthKey.p8")

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> ApnsProvider:
        given: dict[str, Any] = {
            "key_file": self.key_file,
            "key_id": Apns.key_id,
            "team_id": Apns.team_id,
            "topic": TOPIC,
            "base_url": base_url or self.sandbox.https_url,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return ApnsProvider(ApnsSettings(**given | settings), clock=self.clock)

    def target(self, name: str) -> str:
        return name.encode().hex()

    def canned_answer(self, request_body: bytes) -> CannedAnswer:
        assert request_body
        return CannedAnswer(200, (("apns-id", "4a6f0c6e-0f0e-4d6c-9c7b-000000000001"),))

    def title_of(self, received: Any) -> str:
        title: str = received.message["aps"]["alert"]["title"]
        return title

    def take_one_token_in_20_minutes(self) -> None:
        """Let provider and stand-in go by the same clock, and the stand-in be as strict as Apple."""
        self.stand_in.clock = self.clock
        self.stand_in.provider_tokens.least_seconds_between = 20 * MINUTE

    async def proven_provider(self, **settings: Any) -> ApnsProvider:
        """Give a provider that has got a message through."""
        provider = self.provider(**settings)
        assert isinstance(provider, ApnsProvider)
        assert isinstance(await send_to(self, provider, "first"), Sent)
        return provider


def stand_in(sandbox: Sandbox) -> Apns:
    return sandbox.apns


@contextlib.asynccontextmanager
async def rigged(sandbox: Sandbox, folder: Path) -> AsyncIterator[ApnsRig]:
    """Give a rig on a sandbox that remembers nothing, and leave the stand-in as it was."""
    sandbox.reset()
    made = ApnsRig(sandbox, folder)
    yield made
    await made.aclose()
    made.stand_in.clock = time.time
    made.stand_in.gone_since = None
    made.stand_in.provider_tokens.forget()
