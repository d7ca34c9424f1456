"""What the settings sections of all providers share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from tocsin.domain.errors import ProviderSetupError
from tocsin.domain.faults import Fault


def read_file(path: Path, name: str) -> bytes:
    """Read a file that the settings name, or raise ProviderSetupError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProviderSetupError(f"{name} cannot be read: {error}") from error


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings section of a provider, which has the provider's name.

    `timeout` bounds a whole attempt: leases are sized by it. `enabled_by` is the setting without which the
    provider is not used.
    """

    section: ClassVar[str]
    enabled_by: ClassVar[str]

    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    """Seconds a message may take in all."""
    ca_file: Path | None = None
    """A further certificate authority to trust, for a sandbox."""

    @property
    def is_configured(self) -> bool:
        """Whether enough is set for the provider to be used."""
        return getattr(self, self.enabled_by) not in {None, False}

    def faults(self) -> Iterator[Fault]:
        """List what is missing, wrong or contradictory in this section."""
        yield from self.file_faults("ca_file")

    def fault(self, name: str, code: str, message: str) -> Fault:
        """Build a fault about one setting of this section."""
        return Fault(field=f"{self.section}.{name}", code=code, message=message)

    def file_faults(self, *names: str) -> Iterator[Fault]:
        """List settings whose file does not exist."""
        for name in names:
            file: Path | None = getattr(self, name)
            if file is not None and not file.is_file():
                yield self.fault(name, "missing", f"{file} is not a file")

    def required(self, name: str) -> Any:
        """Return a setting that the provider cannot do without, or raise ProviderSetupError."""
        value = getattr(self, name)
        if value is None:
            variable = f"TOCSIN_{self.section}__{name}".upper()
            raise ProviderSetupError(f"The provider {self.section} needs {self.section}.{name} ({variable}).")
        return value

    def raise_faults(self) -> None:
        """Raise ProviderSetupError if the section has faults."""
        if faults := list(self.faults()):
            raise ProviderSetupError("; ".join(map(str, faults)))


HOST_SHARE = 4
"""A host may have a quarter of what may be in flight."""


class HttpProviderSettings(ProviderSettings, frozen=True, kw_only=True):
    """The settings of a provider that is called over HTTP."""

    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """The most messages in flight at once in each worker; it adapts to how the provider copes."""
    connect_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """Seconds to wait for a connection."""

    def base_url_faults(self, base_url: str) -> Iterator[Fault]:
        """List what is wrong with the address of the provider."""
        if not base_url.startswith(("https://", "http://")):
            yield self.fault("base_url", "invalid", "must start with https:// (or http:// for a sandbox)")


class OptInSettings(HttpProviderSettings, frozen=True, kw_only=True):
    """The settings of a provider that needs no credentials: it is used once it is `enabled`."""

    enabled_by: ClassVar[str] = "enabled"

    enabled: bool = False
    """Whether this provider is used."""


class ManyHostsSettings(OptInSettings, frozen=True, kw_only=True):
    """The settings of a provider that calls hosts which somebody outside chose."""

    max_concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Messages in flight at once in each worker."""
    max_per_host: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Messages in flight at once to one host in each worker, so that a host that hangs holds up no other.
    Left out: a quarter of `max_concurrency`.
    """
    allow_private_addresses: bool = False
    """Switches the SSRF guard off: hosts may be in a private network."""

    @property
    def per_host(self) -> int:
        """How many messages may be in flight at once to one host."""
        return self.max_per_host or max(1, self.max_concurrency // HOST_SHARE)
