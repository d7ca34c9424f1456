"""The sandbox: virtual phones behind stand-ins for the push providers, on plain and secure listeners."""

import asyncio
import contextlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import msgspec

from tocsin.sandbox.app import Application
from tocsin.sandbox.certificates import Certificates, prepare_certificates
from tocsin.sandbox.faults.board import FaultBoard
from tocsin.sandbox.faults.control import Control
from tocsin.sandbox.fcm.accounts import Accounts, ServiceAccount
from tocsin.sandbox.fcm.oauth import TokenEndpoint
from tocsin.sandbox.listener import Listener
from tocsin.sandbox.phones import Phones
from tocsin.sandbox.service import Service, StandIn, Surroundings
from tocsin.sandbox.services import SERVICES
from tocsin.sandbox.settings import SandboxSettings
from tocsin.sandbox.smtp.server import Smtp
from tocsin.sandbox.tally import Stats
from tocsin.sandbox.webpush.browsers import Subscription
from tocsin.sandbox.webpush.service import WebPush

_PROJECT_ID = re.compile(r"[a-z][a-z0-9\-]{0,62}")


class Sandbox:
    """Runs inside the current event loop for as long as its `async with` block."""

    def __init__(self, settings: SandboxSettings | None = None) -> None:
        self.settings = settings or SandboxSettings()
        self.phones = Phones(
            unknown_tokens=self.settings.unknown_tokens,
            record=self.settings.record,
            messages_per_phone=self.settings.messages_per_phone,
            messages_kept=self.settings.messages_kept,
            phones_kept=self.settings.phones_kept,
        )
        self._stand_ins: dict[str, StandIn] = {}
        self._exits = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Prepare keys and certificates and open both listeners."""
        async with contextlib.AsyncExitStack() as exits:
            folder = self.settings.folder
            if folder is None:
                folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-sandbox-")))
            await self._open(folder, exits)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close both listeners; a temporary folder goes with them."""
        await self._exits.__aexit__(kind, error, trace)

    @property
    def http_url(self) -> str:
        """Where plain HTTP/1.1 and HTTP/2 with prior knowledge are spoken."""
        return f"http://{_authority(self._http)}"

    @property
    def https_url(self) -> str:
        """Where HTTP/2 and HTTP/1.1 are spoken over TLS."""
        return f"https://{_authority(self._https)}"

    @property
    def ca_file(self) -> Path:
        """The authority that clients must trust to use the secure listener."""
        return self._ca_file

    @property
    def faults(self) -> FaultBoard:
        """The fault board of FCM."""
        return self.faults_of("fcm")

    def service(self, provider: str) -> Service:
        """Give the stand-in of a provider that is spoken to over HTTP."""
        return self._services[provider]

    def faults_of(self, provider: str) -> FaultBoard:
        """Give the fault board of one stand-in."""
        return self._stand_ins[provider].faults

    def stats(self, provider: str = "fcm") -> Stats:
        """Show what one stand-in counted so far."""
        return self._stand_ins[provider].tally.stats()

    def service_account(self, project_id: str = "sandbox", *, secure: bool = True) -> ServiceAccount:
        """Make the key file of a project's service account, which gets its access tokens here."""
        if not _PROJECT_ID.fullmatch(project_id):
            raise ValueError(
                f"project id {project_id!r} is not valid: "
                "use lowercase letters, digits and hyphens, beginning with a letter"
            )
        return self._accounts.account(project_id, f"{self.https_url if secure else self.http_url}/token")

    def subscription(self, browser: str) -> Subscription:
        """Subscribe a virtual browser to messages from anyone."""
        return cast("WebPush", self._services[WebPush.name]).subscribe(browser, self.https_url)

    def write_service_account(self, path: Path, project_id: str = "sandbox", *, secure: bool = True) -> Path:
        """Write the key file of a project's service account."""
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(self.service_account(project_id, secure=secure)))
        return path

    def revoke_access_tokens(self) -> None:
        """Make every access token issued so far invalid."""
        self._tokens.revoke_all()

    def reset(self) -> None:
        """Forget phones, faults and counts; access tokens stay valid."""
        self.phones.clear()
        for stand_in in self._stand_ins.values():
            stand_in.faults.clear()
            stand_in.tally.clear()

    async def _open(self, folder: Path, exits: contextlib.AsyncExitStack) -> None:
        # Keys take tens of milliseconds of computing, which belongs on a thread.
        certificates = await asyncio.to_thread(_prepare_folder, folder)
        self._ca_file = certificates.ca
        self._accounts = await asyncio.to_thread(Accounts.prepare, folder)
        self._tokens = TokenEndpoint(self._accounts, lifetime_seconds=self.settings.access_token_seconds)
        surroundings = Surroundings(self.settings, folder, self.phones, self._tokens)
        self._services = {service.name: service for service in (make(surroundings) for make in SERVICES)}
        self.smtp = Smtp(surroundings)
        self._stand_ins = {**self._services, self.smtp.name: self.smtp}
        self.smtp_port, self.smtps_port = await self.smtp.open(certificates, exits)
        application = self._application()
        self._http = await self._listen(application, self.settings.http_port, None, exits)
        self._https = await self._listen(application, self.settings.https_port, certificates, exits)
        # Called first when closing: a hanging request would hold its listener back.
        exits.callback(application.release)

    async def _listen(
        self,
        application: Application,
        port: int,
        certificates: Certificates | None,
        exits: contextlib.AsyncExitStack,
    ) -> Listener:
        listener = Listener(
            application,
            host=self.settings.host,
            port=port,
            certificates=certificates,
            max_concurrent_streams=self.settings.max_concurrent_streams,
        )
        exits.push_async_callback(listener.stop)
        await listener.start()
        return listener

    def _application(self) -> Application:
        control = Control(
            phones=self.phones,
            services=self._stand_ins,
            tokens=self._tokens,
            ca_pem=self._ca_file.read_bytes(),
            service_account=self.service_account,
            subscription=self.subscription,
            reset=self.reset,
        )
        return Application(
            services=tuple(self._services.values()),
            tokens=self._tokens,
            token_issuer=self._services["fcm"],
            control=control,
        )


def _prepare_folder(folder: Path) -> Certificates:
    folder.mkdir(parents=True, exist_ok=True)
    return prepare_certificates(folder)


def _authority(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host}:{listener.port}"


async def run_sandbox(settings: SandboxSettings, *, on_ready: Callable[[Sandbox], None]) -> None:
    """Serve until cancelled, telling the caller when and where."""
    async with Sandbox(settings) as sandbox:
        on_ready(sandbox)
        await asyncio.Event().wait()
