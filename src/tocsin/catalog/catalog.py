"""The catalog at work: everything is compiled before the first notification."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from tocsin.catalog.schema import Schema
from tocsin.catalog.templates.appearance import AppearanceTexts
from tocsin.catalog.templates.jinja import RenderError, Text
from tocsin.domain.catalog import Channel, Content, NotificationType, Payload, upgrade_through
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import fallback_chain

Named: TypeAlias = tuple[tuple[str, Text], ...]


class UnknownTypeError(TocsinError):
    """A stored notification is of a type or version that the catalog no longer has."""

    def __init__(self, name: str, version: int | None) -> None:
        wanted = name if version is None else f"{name} v{version}"
        super().__init__(f"{wanted} is not in the catalog; declare it again or cancel what waits of it")


class Edition(msgspec.Struct, frozen=True):
    """One version of a type with its schema and texts compiled; one that upgrades has no texts."""

    type: NotificationType
    schema: Schema
    data: Named = ()
    texts: Mapping[Channel, Mapping[str, Named]] = {}
    appearance: AppearanceTexts | None = None


class Catalog:
    """The declared types."""

    def __init__(self, editions: Iterable[Edition]) -> None:
        self._editions: dict[str, dict[int, Edition]] = {}
        for edition in editions:
            self._editions.setdefault(edition.type.name, {})[edition.type.version] = edition
        self._versions = {
            name: {number: edition.type for number, edition in sorted(versions.items())}
            for name, versions in self._editions.items()
        }
        self._newest = {name: versions[max(versions)] for name, versions in self._versions.items()}

    @property
    def types(self) -> Mapping[str, NotificationType]:
        """The newest version of each type by its name."""
        return MappingProxyType(self._newest)

    def find(self, name: str, version: int | None = None) -> NotificationType | None:
        """Give a type in a version, or in its newest."""
        return self._newest.get(name) if version is None else self._versions.get(name, {}).get(version)

    def versions(self, name: str) -> Mapping[int, NotificationType]:
        """List every version of a type, oldest first."""
        return MappingProxyType(self._versions.get(name, {}))

    def locales(self, notification_type: NotificationType, channel: Channel) -> tuple[str, ...]:
        """List the locales in which a type has texts for a channel."""
        return tuple(sorted(self._edition(notification_type).texts.get(channel, {})))

    def faults(self, name: str, version: int | None, payload: Payload) -> list[Fault]:
        """Name everything that is wrong with a payload."""
        notification_type = self.find(name, version)
        if notification_type is not None:
            return self._edition(notification_type).schema.faults("payload", payload)
        if name not in self._newest:
            known = ", ".join(sorted(self._newest))
            message = f"{name[:80]!r} is not in the catalog, which has: {known}"
            return [Fault(field="type", code="unknown_type", message=message)]
        have = ", ".join(map(str, self._versions[name]))
        message = f"{name} has no version {version}; it has: {have}"
        return [Fault(field="version", code="unknown_version", message=message)]

    def resolve(self, name: str, version: int | None, payload: Payload) -> tuple[NotificationType, Payload]:
        """Bring a payload to the newest version that its upgrades lead to."""
        notification_type = self.find(name, version)
        if notification_type is None:
            raise UnknownTypeError(name, version)
        if notification_type.upgrade is None:
            return notification_type, payload
        return upgrade_through(self._versions[name], notification_type, payload)

    def render(
        self, notification_type: NotificationType, channel: Channel, locale: str | None, payload: Payload
    ) -> Content:
        """Write what one delivery says, in the closest locale there is."""
        edition = self._edition(notification_type)
        translations = edition.texts.get(channel)
        found = notification_type.default_locale
        if translations is None:
            raise RenderError(
                notification_type,
                found,
                channel,
                f"templates/{notification_type.name}",
                "no texts for this channel",
            )
        texts: Named = ()
        for candidate in fallback_chain(locale, notification_type.default_locale):
            if (translation := translations.get(candidate)) is not None:
                found, texts = candidate, translation
                break
        parts = {part: _written(notification_type, found, part, text, payload) for part, text in texts}
        data = {
            field: value
            for field, text in edition.data
            if (value := _written(notification_type, found, field, text, payload))
        }
        if edition.appearance is None or channel != "push":
            return Content(found, parts, data)
        return Content(found, parts, data, edition.appearance.render(notification_type, found, payload))

    def _edition(self, notification_type: NotificationType) -> Edition:
        return self._editions[notification_type.name][notification_type.version]


def _written(
    notification_type: NotificationType, locale: str, part: str, text: Text, payload: Payload
) -> str:
    try:
        return text(payload)
    except Exception as error:  # noqa: BLE001 - a template can raise anything
        failure = RenderError(notification_type, locale, part, text.place_of(error), type(error).__name__)
    # Raised out here so that the original is not chained: its words may hold values of the payload.
    raise failure
