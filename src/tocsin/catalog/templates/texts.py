"""The texts of one type: which files belong to it, whether they are complete, and that they hold."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from tocsin.catalog.catalog import Named
from tocsin.catalog.declaration import Declared
from tocsin.catalog.folder import TemplateFile
from tocsin.catalog.templates.appearance import FIXED, AppearanceTexts, appearance_complaint, fixed_appearance
from tocsin.catalog.templates.jinja import TemplateSource, Text, compile_text
from tocsin.catalog.templates.template_check import Complains, digest_examples, text_faults
from tocsin.domain.catalog import PARTS, Channel, Payload
from tocsin.domain.digest import NAMES
from tocsin.domain.faults import Fault
from tocsin.domain.people.locale import normalize


class Texts(msgspec.Struct, frozen=True):
    """The compiled texts of a type, by channel and locale, its data and its appearance."""

    by_channel: Mapping[Channel, Mapping[str, Named]]
    data: Named
    appearance: AppearanceTexts | None
    faults: tuple[Fault, ...]


def texts_of(
    declared: Declared, folder: str, files: Sequence[TemplateFile], examples: Sequence[Payload]
) -> Texts:
    """Compile and prove every text of one version of a type."""
    collecting = _Collecting(declared, folder, examples)
    data = collecting.data()
    appearance = collecting.appearance()
    for file in files:
        collecting.add(file)
    return Texts(collecting.complete(), data, appearance, tuple(collecting.faults))


class _Collecting:
    """Gathers the texts of one type, and every fault on the way."""

    def __init__(self, declared: Declared, folder: str, examples: Sequence[Payload]) -> None:
        self.faults: list[Fault] = []
        self._declared = declared
        self._type = declared.type
        self._folder = folder
        self._known = tuple(self._type.payload_schema.get("properties", {}))
        self._examples = examples
        if self._type.policies.digest is not None:
            self._known += NAMES
            self._examples = digest_examples(examples)
        self._found: dict[Channel, dict[str, dict[str, Text | None]]] = {
            channel: {} for channel in self._type.channels
        }

    def data(self) -> Named:
        return self._section("data", self._type.data)

    def appearance(self) -> AppearanceTexts | None:
        section = self._type.push
        if not section:
            return None
        words = {field: text for field, text in section.items() if field not in FIXED}
        return AppearanceTexts(fixed_appearance(section), self._section("push", words, proven=True))

    def add(self, file: TemplateFile) -> None:
        text = self._compiled(file.source, may_be_blank=False)
        misplaced = self._misplaced(file)
        if misplaced is not None:
            self.faults.append(Fault(field=file.source.place(1), code="name", message=misplaced))
            return
        channel = next(channel for channel in self._type.channels if channel == file.channel)
        self._found[channel].setdefault(file.locale, {})[file.part] = text

    def complete(self) -> Mapping[Channel, Mapping[str, Named]]:
        """Name every part that a locale lacks, and put the texts in order."""
        default = self._type.default_locale
        for channel, locales in self._found.items():
            for locale, parts in {default: {}, **locales}.items():
                lacking = [part for part in PARTS[channel].required if part not in parts]
                self.faults.extend(self._missing(channel, locale, part) for part in lacking)
        return {
            channel: {locale: _in_order(channel, parts) for locale, parts in locales.items()}
            for channel, locales in self._found.items()
        }

    def _section(self, name: str, fields: Mapping[str, str], *, proven: bool = False) -> Named:
        """Compile the texts of a section of the declaration."""
        named = []
        for field, words in fields.items():
            line = self._declared.line((name, field))
            source = TemplateSource(self._declared.source.path, words, line)
            complains = partial(appearance_complaint, field) if proven else None
            text = self._compiled(source, may_be_blank=True, complains=complains)
            if text is not None:
                named.append((field, text))
        return tuple(named)

    def _misplaced(self, file: TemplateFile) -> str | None:
        usual = normalize(file.locale)
        if usual is None:
            return f"{file.locale!r} is no locale"
        if usual != file.locale:
            return f"name the folder {usual!r}, not {file.locale!r}"
        if file.channel not in self._found:
            return f"{self._type.name} has no channel {file.channel!r}"
        parts = next(parts for channel, parts in PARTS.items() if channel == file.channel)
        if file.part not in (*parts.required, *parts.optional):
            known = ", ".join((*parts.required, *parts.optional)) or "none"
            return f"{file.channel} has no part {file.part!r}; it has: {known}"
        return None

    def _missing(self, channel: Channel, locale: str, part: str) -> Fault:
        path = f"templates/{self._folder}/{locale}/{channel}.{part}.j2"
        reason = "the default locale" if locale == self._type.default_locale else "a locale"
        message = f"{reason} needs every part of {channel}; add this file"
        return Fault(field=f"{path}:1", code="missing_part", message=message)

    def _compiled(
        self, source: TemplateSource, *, may_be_blank: bool, complains: Complains | None = None
    ) -> Text | None:
        compiled = compile_text(source)
        if isinstance(compiled, Fault):
            self.faults.append(compiled)
            return None
        self.faults.extend(
            text_faults(compiled, self._known, self._examples, may_be_blank=may_be_blank, complains=complains)
        )
        return compiled


def _in_order(channel: Channel, parts: Mapping[str, Text | None]) -> Named:
    order = (*PARTS[channel].required, *PARTS[channel].optional)
    return tuple((part, text) for part in order if (text := parts.get(part)) is not None)
