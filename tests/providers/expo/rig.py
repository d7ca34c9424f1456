"""Expo's provider before its stand-in."""

from collections.abc import Sequence
from typing import Any

from tests.providers.conformance import NOW, CannedAnswer, Rig, a_message
from tocsin.domain.delivery.message import Message
from tocsin.domain.delivery.outcome import ReceiptOutcome, Sent
from tocsin.providers.expo.provider import ExpoProvider
from tocsin.providers.expo.settings import ExpoSettings
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.expo.service import Expo
from tocsin.sandbox.phones import Received


def token(name: str) -> str:
    return f"ExponentPushToken[{name}]"


def stand_in(sandbox: Sandbox) -> Expo:
    return sandbox.expo


class ExpoRig(Rig):
    service = "expo"
    busy = Refuse("ExpoError")
    busy_after = None
    quota = Refuse("TOO_MANY_REQUESTS", retry_after=90)
    gone = Refuse("DeviceNotRegistered")
    rejected = Refuse("MessageTooBig")

    @property
    def expo(self) -> Expo:
        return stand_in(self.sandbox)

    def target(self, name: str) -> str:
        return token(name)

    def title_of(self, received: Received) -> str:
        title: str = received.message["title"]
        return title

    def canned_answer(self, request_body: bytes) -> CannedAnswer:
        assert request_body
        return CannedAnswer(body=b'{"data": [{"status": "ok", "id": "ticket"}]}')

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> ExpoProvider:
        given: dict[str, Any] = {
            "base_url": base_url or self.sandbox.https_url,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return ExpoProvider(ExpoSettings(**given | settings))

    def expo_provider(self, **settings: Any) -> ExpoProvider:
        """Give a provider that is closed with the rig, as what it is."""
        built = self.provider(**settings)
        assert isinstance(built, ExpoProvider)
        return built


def messages(*names: str, **changes: Any) -> list[Message]:
    return [a_message(token(name), **changes) for name in names]


async def sent_ids(provider: ExpoProvider, *names: str) -> list[str]:
    outcomes = await provider.send(messages(*names), now=NOW)
    ids = [outcome.message_id for outcome in outcomes if isinstance(outcome, Sent) and outcome.message_id]
    assert len(ids) == len(names)
    return ids


async def receipts_of(provider: ExpoProvider, ids: Sequence[str]) -> list[ReceiptOutcome]:
    answers = await provider.receipts(ids, now=NOW)
    assert isinstance(answers, Sequence)
    return list(answers)
