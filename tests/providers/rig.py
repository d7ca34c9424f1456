"""What the conformance suite needs to know of a provider."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from tests.providers.http.http2_peer import CannedAnswer
from tests.providers.wire import Address
from tocsin.domain.delivery.message import Message, Provider
from tocsin.domain.delivery.outcome import Outcome
from tocsin.domain.ids import new_delivery_id, new_notification_id
from tocsin.sandbox import Refuse, Sandbox
from tocsin.sandbox.counters import Stats
from tocsin.sandbox.faults.injector import FaultInjector
from tocsin.sandbox.faults.rules import Fault
from tocsin.sandbox.phones import Received

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UNREACHABLE = "https://127.0.0.1:1"


# What a host name may not be; some raise in Python's own resolver.
HOSTILE_HOSTS = (
    "a..b.com",
    ".a.com",
    f"{'a' * 64}.com",
    ".".join(["abcdefgh"] * 400) + ".com",
    ".".join(["a" * 60] * 5),
    "a!b.com",
    "-a.com",
    "xn--a.com",
    "\u00df\u200d\u0301.com",
    "\u00fc" * 60 + ".com",
    "user:pass" + "x" * 3_000 + "@example.com",
)
# Lone surrogates, control characters, and far more than any token has.
HOSTILE_TEXTS = ("\ud800", "a\x00b", "a\r\nb: c", " ", "../../x", "x" * 1_000_000)


def a_message(target: str, **changes: Any) -> Message:
    message = Message(
        delivery_id=new_delivery_id(),
        notification_id=new_notification_id(),
        type="new_customer",
        target=target,
        title="New customer",
        body="Ali Veli",
        data={"type": "new_customer"},
        platform="android",
        expires_at=NOW + timedelta(hours=1),
    )
    message = replace(message, **changes)
    return replace(message, data={**message.data, "delivery_id": str(message.delivery_id)})


class Rig(ABC):
    """A provider and the sandbox it speaks to.

    A provider's rig has to give `service`, `busy`, `quota`, `gone`, `rejected` and `build`. The rest has
    defaults, which fit a provider that speaks HTTPS to one base URL; override

    - `address`, if the stand-in does not listen at the sandbox's secure address;
    - `message_to`, if a message needs more than its target and words, as a secret to sign with;
    - `hostile_targets`, if some of the texts could be targets, or others never can;
    - `target_at`, if the target itself says where it lives, as a subscription or a webhook does;
    - `canned_answer`, if the provider inherits `Http2Conformance`.
    """

    service: ClassVar[str]
    """The name of its stand-in."""

    busy: ClassVar[Refuse]
    """The service is overloaded and asks for `busy_after`, where it can."""

    busy_after: ClassVar[timedelta | None] = timedelta(seconds=7)

    quota: ClassVar[Refuse | None]
    """The whole sender's quota is used up; the service asks for `quota_after`. None if there is no such."""

    quota_after: ClassVar[timedelta] = timedelta(seconds=90)

    gone: ClassVar[Refuse]
    """The device no longer exists."""

    rejected: ClassVar[Refuse]
    """The content is refused."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._opened: list[Provider] = []

    def provider(self, **settings: Any) -> Provider:
        """Give a provider that is closed with the rig."""
        built = self.build(**settings)
        self._opened.append(built)
        return built

    async def aclose(self) -> None:
        for provider in self._opened:
            await provider.aclose()

    @property
    def faults(self) -> FaultInjector:
        return self.sandbox.faults_of(self.service)

    @property
    def stats(self) -> Stats:
        return self.sandbox.stats(self.service)

    @property
    def address(self) -> Address:
        """Where the stand-in listens; a proxy put before it gives `build` its own as `base_url`."""
        parts = urlsplit(self.sandbox.https_url)
        return Address(str(parts.hostname), parts.port or 443)

    def canned_answer(self, request_body: bytes) -> CannedAnswer:  # noqa: ARG002 - for those whose answer fits the request
        """Give the answer by which the service takes the one message of a request."""
        return CannedAnswer(200)

    @property
    def arrivals(self) -> list[Received]:
        """What the sandbox's devices received, in order."""
        return list(self.sandbox.phones.messages(after=0, limit=1_000))

    def target(self, name: str) -> str:
        """Give the target of that name: a token, a subscription, an address; always the same one."""
        return name

    def target_at(self, name: str, base_url: str) -> str:  # noqa: ARG002 - for targets that live somewhere
        """Give the target of that name as it is behind another base URL; the sandbox knows it by `key`."""
        return self.target(name)

    def key(self, name: str) -> str:
        """Give what the sandbox knows the target of that name by, in scripts and among its phones."""
        return self.target(name)

    def script(self, name: str, *steps: Fault, repeat: bool = False) -> None:
        self.faults.script(self.key(name), *steps, repeat=repeat)

    def message(self, name: str, **changes: Any) -> Message:
        return self.message_to(self.target(name), **changes)

    def message_to(self, target: str, **changes: Any) -> Message:
        """Write a message to a target, with all that this kind of provider needs of one."""
        return a_message(target, **changes)

    def hostile_targets(self) -> list[str]:
        """List targets that no message can reach, each bad in a way of its own."""
        return [*HOSTILE_TEXTS]

    def title_of(self, received: Received) -> str:
        """Read the title out of what a device received."""
        title: str = received.message["notification"]["title"]
        return title

    @abstractmethod
    def build(
        self, *, base_url: str | None = None, timeout_seconds: float = 5.0, concurrency: int = 20
    ) -> Provider:
        """Make a provider of this kind for the sandbox, or for another address.

        A base URL begins with https; a provider that speaks something else takes host and port from it.
        """


async def send_one(provider: Provider, target: str, **changes: Any) -> Outcome:
    (outcome,) = await provider.send([a_message(target, **changes)], now=NOW)
    return outcome


async def send_to(
    rig: Rig, provider: Provider, name: str, *, at: str | None = None, **changes: Any
) -> Outcome:
    """Send to the target of that name, in the sandbox or as it is behind another base URL."""
    target = rig.target(name) if at is None else rig.target_at(name, at)
    (outcome,) = await provider.send([rig.message_to(target, **changes)], now=NOW)
    return outcome
