"""The settings of Expo."""

from collections.abc import Iterator
from typing import ClassVar

from tocsin.domain.faults import Fault
from tocsin.providers.settings import OptInSettings


class ExpoSettings(OptInSettings, frozen=True, kw_only=True):
    """The settings section `expo`."""

    section: ClassVar[str] = "expo"

    access_token: str | None = None
    """An access token of an Expo account, if the project requires one."""
    base_url: str = "https://exp.host"
    """The address of Expo; change it only for a [sandbox](../guides/sandbox.md)."""

    def __repr__(self) -> str:
        """Show the address of Expo, not the secret."""
        return f"ExpoSettings(enabled={self.enabled}, base_url={self.base_url!r})"

    def faults(self) -> Iterator[Fault]:
        """List what cannot work in the settings of Expo."""
        yield from self.base_url_faults(self.base_url)
        yield from super().faults()
        token = self.access_token
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            message = "must be the access token alone, as the Expo dashboard shows it"
            yield self.fault("access_token", "invalid", message)
