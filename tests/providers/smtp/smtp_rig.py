"""A mail server for tests, and a provider that talks to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.providers.conformance import Address, Rig
from tests.providers.rig import HOSTILE_HOSTS, HOSTILE_TEXTS
from tocsin.providers.smtp.pool import SmtpPoolSettings
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.sandbox import Refuse, Sandbox

Security = Literal["starttls", "tls", "none"]
SENDER = "Acme, Inc. <notify@acme.example>"


class SmtpRig(Rig):
    service = "smtp"
    busy = Refuse("451 4.3.2")
    busy_after = None
    quota = Refuse("421 4.7.0")
    quota_after = timedelta(minutes=1)
    gone = Refuse("550 5.1.1")
    rejected = Refuse("554 5.6.0")

    def __init__(self, sandbox: Sandbox, security: Security) -> None:
        super().__init__(sandbox)
        self.security = security

    @property
    def address(self) -> Address:
        port = self.sandbox.smtps_port if self.security == "tls" else self.sandbox.smtp_port
        return Address("127.0.0.1", port)

    def target(self, name: str) -> str:
        return f"{name}@example.org"

    def hostile_targets(self) -> list[str]:
        return [*HOSTILE_TEXTS, *(f"a@{host}" for host in HOSTILE_HOSTS), "a" * 100_000 + "@example.org"]

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        pool: SmtpPoolSettings | None = None,
        **settings: Any,
    ) -> SmtpProvider:
        parts = urlsplit(base_url) if base_url else None
        given: dict[str, Any] = {
            "host": parts.hostname if parts else self.address.host,
            "port": parts.port if parts else self.address.port,
            "security": self.security,
            "username": "sandbox",
            "password": "sandbox",
            "sender": SENDER,
            # A hundred handshakes take their time on a core that client and server share.
            "timeout": timeout_seconds if concurrency < 100 else 30.0,
            "connections": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return SmtpProvider(SmtpSettings(**given | settings), pool)


@contextmanager
def counted(sandbox: Sandbox) -> Iterator[list[int]]:
    """Give how many connections were made, once the block is left."""
    count: list[int] = []
    before = sandbox.smtp.connections
    yield count
    count.append(sandbox.smtp.connections - before)
