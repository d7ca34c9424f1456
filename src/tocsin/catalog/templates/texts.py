"""The templates of one type: compiled, checked, and complete for every locale."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from tocsin.catalog.attributes import (
    USER,
    attributes_of,
    template_schema,
    unknown_attributes,
    with_attributes,
)
from tocsin.catalog.catalog import CompiledType, NamedTemplates
from tocsin.catalog.declaration import Declaration, locale_problem
from tocsin.catalog.folder import TemplateFile
from tocsin.catalog.templates.appearance import (
    AppearanceTemplates,
    appearance_problem,
    constant_appearance,
    is_constant,
)
from tocsin.catalog.templates.html_check import html_faults
from tocsin.catalog.templates.jinja import CompiledTemplate, TemplateSource, compile_template
from tocsin.catalog.templates.template_check import TextCheck, digest_examples, template_faults
from tocsin.domain.catalog import PARTS, Channel, Payload
from tocsin.domain.delivery.message import DEFAULT_APPEARANCE
from tocsin.domain.digest import NAMES
from tocsin.domain.faults import Fault


def compile_type(
    declaration: Declaration, files: Sequence[TemplateFile], examples: Sequence[Payload], faults: list[Fault]
) -> CompiledType:
    """Compile and check every template of one version of a type, and add the faults to `faults`."""
    compiler = _Compiler(declaration, examples, faults)
    notification_type, appearance = declaration.type, None
    if section := notification_type.push:
        templates = {field: text for field, text in section.items() if not is_constant(field, text)}
        compiled = compiler.section("push", templates, check=appearance_problem)
        appearance = AppearanceTemplates(constant_appearance(section), compiled)
    inbox = None
    if notification_type.inbox:
        compiled = compiler.section("inbox", notification_type.inbox, check=appearance_problem)
        inbox = AppearanceTemplates(DEFAULT_APPEARANCE, compiled, "inbox")
    data = compiler.section("data", notification_type.data)
    return CompiledType(
        notification_type,
        declaration.schema,
        data,
        compiler.files(files),
        appearance,
        attributes_of(notification_type),
        inbox,
    )


class _Compiler:
    """Compiles the templates of one type and collects their faults."""

    def __init__(self, declaration: Declaration, examples: Sequence[Payload], faults: list[Fault]) -> None:
        self._declaration = declaration
        self._type = declaration.type
        self._faults = faults
        self._payload_fields = tuple(self._type.payload_schema.get("properties", {}))
        self._fields = self._payload_fields
        self._examples = examples
        if self._type.policies.digest is not None:
            self._fields += NAMES
            self._examples = digest_examples(examples)
        if self._type.attributes:
            self._fields += (USER,)
            self._examples = with_attributes(self._type, self._examples)

    def section(
        self, name: str, fields: Mapping[str, str], *, check: Callable[[str, str], str | None] | None = None
    ) -> NamedTemplates:
        """Compile the templates of a section of the declaration."""
        named = []
        for field, text in fields.items():
            line = self._declaration.line((name, field))
            source = TemplateSource(self._declaration.source.path, text, line)
            template = self._compile(
                source, may_be_blank=True, check=partial(check, field) if check else None
            )
            if template is not None:
                named.append((field, template))
        return tuple(named)

    def files(self, files: Sequence[TemplateFile]) -> Mapping[Channel, Mapping[str, NamedTemplates]]:
        """Compile the template files by channel and locale, each with its parts in their usual order."""
        found: dict[Channel, dict[str, dict[str, CompiledTemplate | None]]] = {
            channel: {} for channel in self._type.channels
        }
        for file in files:
            template = self._compile(file.source, may_be_blank=False)
            if (problem := self._misplaced(file)) is not None:
                self._faults.append(Fault(field=file.source.location(1), code="name", message=problem))
            else:
                channel = cast("Channel", file.channel)
                found[channel].setdefault(file.locale, {})[file.part] = template
        for channel in self._channels_without_texts():
            if not found[channel]:
                del found[channel]
        for channel, locales in found.items():
            for locale, parts in {self._type.default_locale: {}, **locales}.items():
                self._faults.extend(self._missing(channel, locale, parts))
        return {
            channel: {locale: _in_order(channel, parts) for locale, parts in locales.items()}
            for channel, locales in found.items()
        }

    def _channels_without_texts(self) -> Iterator[Channel]:
        """List the channels that may have no texts: those that no audience uses, and a push as an event."""
        for channel in self._type.channels:
            if channel not in self._type.used_channels or (channel == "push" and self._type.event):
                yield channel

    def _misplaced(self, file: TemplateFile) -> str | None:
        if (problem := locale_problem(file.locale)) is not None:
            return problem
        if file.channel not in self._type.channels:
            return f"{self._type.name} has no channel {file.channel!r}"
        parts = PARTS[file.channel].all
        if file.part not in parts:
            return f"{file.channel} has no part {file.part!r}; it has: {', '.join(parts) or 'none'}"
        return None

    def _missing(self, channel: Channel, locale: str, parts: Mapping[str, object]) -> Iterator[Fault]:
        subject = "the default locale" if locale == self._type.default_locale else "a locale"
        for part in PARTS[channel].required:
            if part not in parts:
                path = f"templates/{self._declaration.template_folder}/{locale}/{channel}.{part}.j2"
                message = f"{subject} needs every part of {channel}; add this file"
                yield Fault(field=f"{path}:1", code="missing_part", message=message)

    def _compile(
        self, source: TemplateSource, *, may_be_blank: bool, check: TextCheck | None = None
    ) -> CompiledTemplate | None:
        template = compile_template(source)
        if isinstance(template, Fault):
            self._faults.append(template)
            return None
        if source.html:
            self._faults.extend(html_faults(source, template_schema(self._type)))
        unknown = unknown_attributes(template.attributes, self._type.attributes)
        misspelt = [
            Fault(field=source.location(line), code="unknown_attribute", message=message)
            for line, message in (unknown if USER not in self._payload_fields else ())
        ]
        self._faults.extend(
            misspelt
            or template_faults(template, self._fields, self._examples, may_be_blank=may_be_blank, check=check)
        )
        return template


def _in_order(channel: Channel, parts: Mapping[str, CompiledTemplate | None]) -> NamedTemplates:
    return tuple((part, template) for part in PARTS[channel].all if (template := parts.get(part)) is not None)
