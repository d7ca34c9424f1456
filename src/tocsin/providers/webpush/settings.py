"""The settings of Web Push."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from msgspec import field

from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault
from tocsin.providers.settings import ManyHostsSettings, read_file

SECRET_NAME = "vapid_private_key"  # noqa: S105 - the name that the key is stored by

_SUBJECT = re.compile(r"mailto:[^@\s]+@[^@\s]+\.[^@\s]+|https://[^\s/]+\.[^\s]+")


class WebPushSettings(ManyHostsSettings, frozen=True, kw_only=True):
    """The settings section `webpush`. Without a key file, one is generated on the first start and stored."""

    section: ClassVar[str] = "webpush"

    subject: str | None = None
    """Your contact address for push services: `mailto:…` or an `https:` page."""
    private_key_file: Path | None = None
    """A P-256 private key in PEM form. Left out, one is generated on the first start and stored in the
    database.
    """

    previous_key_files: list[Path] = field(default_factory=list)
    """Earlier private keys in PEM form, newest first: for subscriptions that were made with them."""

    def faults(self) -> Iterator[Fault]:
        """List what is missing or wrong once Web Push is enabled."""
        if not self.enabled:
            return
        if self.subject is None:
            message = "is required: push services want to know whom to ask, as mailto:you@example.com"
            yield self.fault("subject", "missing", message)
        elif not _SUBJECT.fullmatch(self.subject):
            message = f"{self.subject!r} must be mailto: and an address, or https:// and a page"
            yield self.fault("subject", "invalid", message)
        if self.previous_key_files and self.private_key_file is None:
            message = "needs webpush.private_key_file; keys in the database keep their earlier ones there"
            yield self.fault("previous_key_files", "alone", message)
        yield from super().faults()

    def private_key(self) -> str | None:
        """Read the private key file, if one is set."""
        if self.private_key_file is None:
            return None
        return _read_pem(self.private_key_file, "PRIVATE_KEY_FILE")

    def private_keys(self) -> list[str]:
        """Read the private key files, newest first; empty if none is set."""
        current = self.private_key()
        if current is None:
            return []
        return [current, *(_read_pem(each, "PREVIOUS_KEY_FILES") for each in self.previous_key_files)]


def _read_pem(file: Path, setting: str) -> str:
    name = f"TOCSIN_WEBPUSH__{setting}={file}"
    content = read_file(file, name)
    if not content.isascii():
        raise ProviderSetupError(f"{name} cannot be read: it is not text")
    return content.decode()
