"""FCM and the sandbox that stands in for it."""

from pathlib import Path
from typing import Any

from tests.providers.http.http2_peer import CannedAnswer
from tests.providers.rig import Rig
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.providers.fcm.settings import FcmSettings
from tocsin.sandbox import Refuse, Sandbox


class FcmRig(Rig):
    service = "fcm"
    busy = Refuse("UNAVAILABLE", retry_after=7)
    quota = Refuse("QUOTA_EXCEEDED", retry_after=90)
    gone = Refuse("UNREGISTERED")
    rejected = Refuse("INVALID_ARGUMENT")

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        super().__init__(sandbox)
        self.credentials_file = sandbox.write_service_account(folder / "account.json")

    def canned_answer(self, request_body: bytes) -> CannedAnswer:
        assert request_body
        return CannedAnswer(body=b'{"name": "projects/sandbox/messages/1"}')

    def build(
        self,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 5.0,
        concurrency: int = 20,
        **settings: Any,
    ) -> FcmProvider:
        given: dict[str, Any] = {
            "credentials_file": self.credentials_file,
            "base_url": base_url or self.sandbox.https_url,
            "timeout": timeout_seconds,
            "max_concurrency": concurrency,
            "ca_file": self.sandbox.ca_file,
        }
        return FcmProvider(FcmSettings(**given | settings))
