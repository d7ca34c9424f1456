"""The sandbox: virtual phones behind stand-ins for the providers, on plain and secure listeners."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Self

import msgspec

from tocsin.sandbox.apns.service import Apns
from tocsin.sandbox.app import Application
from tocsin.sandbox.certificates import prepare_certificates, write_private
from tocsin.sandbox.control import Control
from tocsin.sandbox.counters import Stats
from tocsin.sandbox.errors import cannot_write
from tocsin.sandbox.expo.service import Expo
from tocsin.sandbox.faults.injector import FaultInjector
from tocsin.sandbox.fcm.accounts import ServiceAccount
from tocsin.sandbox.fcm.service import Fcm
from tocsin.sandbox.http.listener import listening
from tocsin.sandbox.phones import Phones
from tocsin.sandbox.settings import SandboxSettings
from tocsin.sandbox.smtp.server import Smtp
from tocsin.sandbox.sns.service import Sns
from tocsin.sandbox.stand_in import SandboxContext, StandIn
from tocsin.sandbox.webhook.service import WebhookStandIn
from tocsin.sandbox.webpush.browsers import Subscription
from tocsin.sandbox.webpush.service import WebPush


class Sandbox:
    """Runs inside the current event loop for as long as its `async with` block."""

    http_url: str
    """The address of the plain listener: HTTP/1.1, and HTTP/2 with prior knowledge."""
    https_url: str
    """The address of the TLS listener: HTTP/2 and HTTP/1.1."""
    ca_file: Path
    """The authority that clients must trust to use the TLS listener."""

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self.settings = settings or SandboxSettings()
        self.phones = Phones(self.settings)
        self._stand_ins: dict[str, StandIn] = {}
        self._exits = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Prepare keys and certificates and open every listener."""
        async with contextlib.AsyncExitStack() as exits:
            folder = self.settings.folder
            if folder is None:
                folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-sandbox-")))
            await self._open(folder, exits)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every listener and remove a temporary folder."""
        await self._exits.aclose()

    @property
    def faults(self) -> FaultInjector:
        """The faults of FCM."""
        return self.fcm.faults

    def faults_of(self, provider: str) -> FaultInjector:
        """Return the faults of one stand-in."""
        return self._stand_ins[provider].faults

    def stats(self, provider: str = "fcm") -> Stats:
        """Return the counts of one stand-in."""
        return self._stand_ins[provider].counters.stats()

    def service_account(self, project_id: str = "sandbox", *, secure: bool = True) -> ServiceAccount:
        """Build the key file of a project's service account, which gets its access tokens here."""
        url = self.https_url if secure else self.http_url
        return self.fcm.accounts.account(project_id, f"{url}/token")

    def subscription(self, browser: str) -> Subscription:
        """Subscribe a virtual browser to messages of any sender."""
        return self.webpush.subscribe(browser, self.https_url)

    def write_service_account(self, path: Path, project_id: str = "sandbox", *, secure: bool = True) -> Path:
        """Write the key file of a project's service account."""
        account = self.service_account(project_id, secure=secure)
        return write_private(path, msgspec.json.encode(account))

    def reset(self) -> None:
        """Forget phones, faults and counts; access tokens stay valid."""
        self.phones.clear()
        for stand_in in self._stand_ins.values():
            stand_in.reset()

    async def _open(self, folder: Path, exits: contextlib.AsyncExitStack) -> None:
        # Keys take tens of milliseconds of computing, which belongs on a thread.
        try:
            certificates = await asyncio.to_thread(prepare_certificates, folder)
        except OSError as error:
            raise cannot_write(folder, error) from error
        self.ca_file = certificates.ca
        context = SandboxContext(self.settings, folder, self.phones)
        self.fcm = await asyncio.to_thread(Fcm, context)
        self.apns, self.expo, self.webpush = Apns(context), Expo(context), WebPush(context)
        self.webhook, self.sns, self.smtp = WebhookStandIn(context), Sns(context), Smtp(context)
        # The busiest come first.
        http_stand_ins = (self.fcm, self.apns, self.expo, self.webpush, self.webhook, self.sns)
        self._stand_ins = {stand_in.name: stand_in for stand_in in (*http_stand_ins, self.smtp)}
        self.smtp_port, self.smtps_port = await self.smtp.open(certificates, exits)
        control = Control(
            phones=self.phones,
            stand_ins=self._stand_ins,
            fcm=self.fcm,
            expo=self.expo,
            ca_pem=certificates.ca.read_bytes(),
            subscribe=self.subscription,
            reset=self.reset,
        )
        application = Application(http_stand_ins, self.fcm.grant_token, control)
        plain = listening(application, self.settings, self.settings.http_port, None)
        secure = listening(application, self.settings, self.settings.https_port, certificates)
        self.http_url = f"http://{await exits.enter_async_context(plain)}"
        self.https_url = f"https://{await exits.enter_async_context(secure)}"
