"""The settings of FCM."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from tocsin.domain.faults import Fault
from tocsin.providers.settings import HttpProviderSettings


class FcmSettings(HttpProviderSettings, frozen=True, kw_only=True):
    """The settings section `fcm`; without a credentials file FCM is not used."""

    section: ClassVar[str] = "fcm"
    enabled_by: ClassVar[str] = "credentials_file"

    credentials_file: Path | None = None
    """The JSON key of a Google service account. Left out, FCM is not used."""
    project_id: str | None = None
    """The Firebase project. Left out: the service account's."""
    base_url: str = "https://fcm.googleapis.com"
    """The address of FCM; change it only for a [sandbox](../guides/sandbox.md)."""

    def faults(self) -> Iterator[Fault]:
        """List what cannot work in the settings of FCM."""
        yield from self.file_faults("credentials_file", "ca_file")
        yield from self.base_url_faults(self.base_url)
