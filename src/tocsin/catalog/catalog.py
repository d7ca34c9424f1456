"""The catalog in use: every schema and template compiled before the first notification."""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tocsin.catalog.attributes import UsedAttributes
from tocsin.catalog.schema import Schema
from tocsin.catalog.templates.appearance import AppearanceTemplates
from tocsin.catalog.templates.jinja import CompiledTemplate, RenderError
from tocsin.domain.catalog import (
    NO_POLICIES,
    Channel,
    Content,
    NotificationType,
    Payload,
    Policies,
    upgrade_through,
)
from tocsin.domain.errors import TocsinError
from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import fallback_chain

NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
NamedTemplates: TypeAlias = tuple[tuple[str, CompiledTemplate], ...]


class UnknownTypeError(TocsinError):
    """A stored notification has a type or version that is no longer in the catalog."""

    def __init__(self, name: str, version: int | None) -> None:
        wanted = name if version is None else f"{name} v{version}"
        super().__init__(f"{wanted} is not in the catalog; declare it again or cancel its notifications")


class CompiledType(msgspec.Struct, frozen=True):
    """One version of a type with its compiled schema and templates; a version that upgrades has none."""

    type: NotificationType
    schema: Schema
    data: NamedTemplates = ()
    texts: Mapping[Channel, Mapping[str, NamedTemplates]] = {}
    appearance: AppearanceTemplates | None = None
    attributes: UsedAttributes | None = None
    inbox: AppearanceTemplates | None = None

    def appearance_in(self, channel: Channel) -> AppearanceTemplates | None:
        """Return the templates that decide how a message looks, where a channel has such."""
        match channel:
            case "push":
                return self.appearance
            case "inbox":
                return self.inbox
            case _:
                return None


class Catalog:
    """The declared types; `fingerprint` is a hash of the files that they were loaded from.

    `defaults` are the policies of the deployment, which hold where a type declares nothing else.
    """

    def __init__(
        self, types: Iterable[CompiledType], fingerprint: str = "", defaults: Policies = NO_POLICIES
    ) -> None:
        self.defaults = defaults
        self.compiled = {(each.type.name, each.type.version): each for each in types}
        self._replaced: Mapping[tuple[str, int], CompiledType] = {}
        self._use(fingerprint)

    def replace(self, other: "Catalog") -> None:
        """Use the types of another catalog from now on, everywhere at once."""
        # What is under way under a type that is gone is still rendered.
        self._replaced, self.compiled = self.compiled, other.compiled
        self._use(other.fingerprint)

    def _use(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._versions: dict[str, dict[int, NotificationType]] = {}
        for (name, version), compiled in sorted(self.compiled.items()):
            self._versions.setdefault(name, {})[version] = compiled.type
        self._newest = {name: versions[max(versions)] for name, versions in self._versions.items()}

    @property
    def types(self) -> Mapping[str, NotificationType]:
        """The newest version of each type by its name."""
        return MappingProxyType(self._newest)

    def find(self, name: str, version: int | None = None) -> NotificationType | None:
        """Return a version of a type, by default the newest."""
        return self._newest.get(name) if version is None else self._versions.get(name, {}).get(version)

    def locales(self, notification_type: NotificationType, channel: Channel) -> tuple[str, ...]:
        """List the locales in which a type has texts for a channel."""
        return tuple(sorted(self._compiled_type(notification_type).texts.get(channel, {})))

    def schema(self, notification_type: NotificationType) -> Schema:
        """Return the schema that payloads of a type have to satisfy."""
        return self._compiled_type(notification_type).schema

    def faults(self, name: str, version: int | None, payload: Payload) -> list[Fault]:
        """List everything that is wrong with a type name, a version and a payload."""
        notification_type = self.find(name, version)
        if notification_type is not None:
            return self.schema(notification_type).faults("payload", payload)
        if name not in self._newest:
            known = ", ".join(sorted(self._newest))
            message = f"{name[:80]!r} is not in the catalog, which has: {known}"
            return [Fault(field="type", code="unknown_type", message=message)]
        have = ", ".join(map(str, self._versions[name]))
        message = f"{name} has no version {version}; it has: {have}"
        return [Fault(field="version", code="unknown_version", message=message)]

    def resolve(self, name: str, version: int | None, payload: Payload) -> tuple[NotificationType, Payload]:
        """Upgrade a payload to the newest version that its upgrades lead to; return that version too."""
        notification_type = self.find(name, version)
        if notification_type is None:
            raise UnknownTypeError(name, version)
        return self.upgrade(notification_type, payload)

    def upgrade(self, found: NotificationType, payload: Payload) -> tuple[NotificationType, Payload]:
        """Upgrade a payload of a type that was found, as `resolve` does."""
        if found.upgrade is None and found.category_field is None:
            return found, payload
        return upgrade_through(self._versions[found.name], found, payload)

    def render(
        self,
        notification_type: NotificationType,
        channel: Channel,
        locale: str | None,
        payload: Payload,
        attributes: Mapping[str, Any] = NO_ATTRIBUTES,
    ) -> Content:
        """Render the content of one delivery in the locale that `locale` chooses.

        Of the recipient's `attributes` templates read those that the type declares.
        """
        compiled = self._compiled_type(notification_type)
        if compiled.attributes is not None:
            payload = {**payload, **compiled.attributes.variables(attributes)}
        translations = compiled.texts.get(channel)
        if translations is None:
            default, folder = notification_type.default_locale, f"templates/{notification_type.name}"
            raise RenderError(notification_type, default, channel, folder, "no texts for this channel")
        found = _chosen(notification_type, locale, translations)
        parts = {
            part: template.constant or template.render(notification_type, found, part, payload)
            for part, template in translations.get(found, ())
        }
        data = {
            field: text
            for field, template in compiled.data
            if (text := template.constant or template.render(notification_type, found, field, payload))
        }
        appearance = compiled.appearance_in(channel)
        if appearance is None:
            return Content(found, parts, data)
        return Content(found, parts, data, appearance.render(notification_type, found, payload))

    def locale(self, notification_type: NotificationType, channel: Channel, locale: str | None) -> str:
        """Return the locale in which a delivery is rendered for a person with this locale.

        A channel that has no texts, such as a push as an event, goes by those of the other channels.
        """
        texts = self._compiled_type(notification_type).texts
        if channel in texts:
            return _chosen(notification_type, locale, texts[channel])
        return _chosen(notification_type, locale, {each for locales in texts.values() for each in locales})

    def _compiled_type(self, notification_type: NotificationType) -> CompiledType:
        key = (notification_type.name, notification_type.version)
        return self.compiled.get(key) or self._replaced[key]


def _chosen(notification_type: NotificationType, locale: str | None, available: Container[str]) -> str:
    """Return the available locale that a person with this locale gets."""
    default = notification_type.default_locale
    if locale is None:
        return default
    if notification_type.locale_match == "exact":
        return locale if locale in available else default
    return next((each for each in fallback_chain(locale, default) if each in available), default)
