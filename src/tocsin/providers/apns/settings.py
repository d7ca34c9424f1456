"""The settings of APNs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.apns.signing_key import load_key
from tocsin.providers.settings import HttpProviderSettings

Environment = Literal["production", "sandbox"]

_TOPIC = re.compile(r"[A-Za-z0-9.-]+")


class ApnsSettings(HttpProviderSettings, frozen=True, kw_only=True):
    """The settings section `apns`; without a key file APNs is not used."""

    section: ClassVar[str] = "apns"
    enabled_by: ClassVar[str] = "key_file"

    key_file: Path | None = None
    """The `.p8` key from Apple. Left out, APNs is not used."""
    key_id: str | None = None
    """The key's id, as Apple's page shows it."""
    team_id: str | None = None
    """The team's id, as Apple's page shows it."""
    topic: str | None = None
    """The app's bundle id."""
    environment: Environment = "production"
    """`sandbox` for apps that Xcode installed on a phone, `production` for all others."""
    base_url: str | None = None
    """The address of APNs. Left out: Apple's address for the environment."""

    def faults(self) -> Iterator[Fault]:
        """List what is missing or contradictory in the settings of APNs."""
        needed = {name: getattr(self, name) for name in ("key_id", "team_id", "topic")}
        if self.key_file is None:
            if name := next((name for name, value in needed.items() if value), None):
                message = f"is needed with apns.{name}: name the .p8 file that Apple handed out"
                yield self.fault("key_file", "missing", message)
        else:
            for name in (name for name, value in needed.items() if not value):
                message = "is needed with apns.key_file: Apple's developer site shows it"
                yield self.fault(name, "missing", message)
            yield from self._key_faults(self.key_file)
        if self.topic and (not _TOPIC.fullmatch(self.topic) or self.topic.endswith(".voip")):
            message = f"must be the app's bundle id and no more, not {self.topic!r}"
            yield self.fault("topic", "invalid", message)
        if self.base_url is not None and not self.base_url.startswith("https://"):
            message = f"must begin with https://, not be {self.base_url!r}: APNs speaks HTTP/2 over TLS alone"
            yield self.fault("base_url", "invalid", message)
        yield from super().faults()

    def _key_faults(self, key_file: Path) -> Iterator[Fault]:
        yield from self.file_faults("key_file")
        if key_file.is_file():
            try:
                load_key(key_file)
            except ProviderSetupError as error:
                yield self.fault("key_file", "invalid", str(error))
