"""Proof, before anything is sent, that texts and upgrades hold for every payload a schema allows."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from tocsin.catalog.declaration import Declared
from tocsin.catalog.examples import example_payloads
from tocsin.catalog.formats.values import FormatError
from tocsin.catalog.schema import Schema, dotted
from tocsin.catalog.templates.jinja import NotTextError, Text
from tocsin.domain.catalog import Payload, Upgrade, upgraded
from tocsin.domain.digest import digest_payload
from tocsin.domain.faults import Fault

_SHOWN = 80


def accepted_examples(schema: Mapping[str, Any], compiled: Schema) -> list[Payload]:
    """Make example payloads that the schema accepts."""
    return [payload for payload in example_payloads(schema) if compiled.accepts(payload)]


def example_faults(declared: Declared, examples: Sequence[Payload]) -> Iterator[Fault]:
    """Find the fields that stand in no example, of which nothing could be proven."""
    shown = {field for payload in examples for field in payload}
    for field in declared.type.payload_schema.get("properties", {}):
        if field not in shown:
            message = f"no example can be made for payload.{field}; give it `examples:` in the schema"
            yield declared.fault(("payload", "properties", field), "no_example", message)


def digest_examples(examples: Sequence[Payload]) -> list[Payload]:
    """Make of each example a digest of it alone, and one of three in which it comes last."""
    size = len(examples)
    return [
        digest_payload(told)
        for last, payload in enumerate(examples)
        for told in ([payload], [examples[(last - 2) % size], examples[last - 1], payload])
    ]


Complains: TypeAlias = Callable[[str], str | None]
"""Says what is wrong with a text as it was written, if anything."""


def text_faults(
    text: Text,
    known: Collection[str],
    examples: Sequence[Payload],
    *,
    may_be_blank: bool,
    complains: Complains | None = None,
) -> list[Fault]:
    """Find unknown names, then whatever fails when the examples are rendered."""
    unknown = [
        Fault(
            field=text.source.place(line),
            code="unknown_variable",
            message=f"{name!r} is not a field of the payload, which has: {', '.join(known) or 'none'}",
        )
        for name, line in text.names.items()
        if name not in known
    ]
    if unknown:
        return unknown
    failed: dict[str, Fault] = {}
    for payload in examples:
        try:
            written = text(payload)
        except Exception as error:  # noqa: BLE001 - a template can raise anything, and each is a fault
            place = text.place_of(error)
            failed.setdefault(place, _failure(place, error))
        else:
            if not may_be_blank and not written.strip():
                message = "the text is blank for a payload that the schema allows"
                place = text.source.place(1)
                failed.setdefault(place, Fault(field=place, code="blank", message=message))
            elif complains and (complaint := complains(written)):
                message = (
                    f"{complaint}; it comes to {written[:_SHOWN]!r} for a payload that the schema allows"
                )
                place = text.source.place(1)
                failed.setdefault(place, Fault(field=place, code="value", message=message))
    return list(failed.values())


def _failure(place: str, error: Exception) -> Fault:
    match error:
        case UndefinedError():
            advice = "guard what the schema leaves optional with `is defined` or the default filter"
            return Fault(field=place, code="undefined", message=f"{error.message}; {advice}")
        case SecurityError():
            return Fault(field=place, code="sandbox", message=f"the sandbox refuses this: {error.message}")
        case FormatError():
            advice = "the schema allows this; narrow the field there, or give it `examples:`"
            return Fault(field=place, code="format", message=f"{error}; {advice}")
        case NotTextError():
            return Fault(field=place, code="not_text", message=str(error))
        case _:
            message = f"fails for a payload that the schema allows: {type(error).__name__}: {error}"
            return Fault(field=place, code="render", message=message)


def upgrade_faults(
    declared: Declared, upgrade: Upgrade, following: Declared, schema: Schema, examples: Sequence[Payload]
) -> Iterator[Fault]:
    """Find fields an upgrade names wrongly, then payloads that the next version would refuse."""
    misnamed = list(_misnamed(declared, upgrade, following))
    if misnamed:
        yield from misnamed
        return
    reported = set()
    for payload in examples:
        for complaint in schema.complaints(upgraded(upgrade, payload)):
            subject = dotted("payload", complaint.place)
            if subject not in reported:
                reported.add(subject)
                message = f"an upgraded payload does not fit {following.type}: {subject} {complaint.message}"
                yield declared.fault(("upgrade",), "upgrade", message)


def _misnamed(declared: Declared, upgrade: Upgrade, following: Declared) -> Iterator[Fault]:
    before = declared.type.payload_schema.get("properties", {})
    after = following.type.payload_schema.get("properties", {})
    targets = list(upgrade.rename.values())
    for field, target in upgrade.rename.items():
        place = ("upgrade", "rename", field)
        if field not in before:
            yield declared.fault(place, "upgrade", f"{declared.type} has no field {field!r} to rename")
        if target not in after:
            yield declared.fault(place, "upgrade", f"{following.type} has no field {target!r}")
        elif targets.count(target) > 1:
            yield declared.fault(place, "upgrade", f"more than one field is renamed to {target!r}")
    for index, field in enumerate(upgrade.remove):
        if field not in before:
            at = ("upgrade", "remove", index)
            yield declared.fault(at, "upgrade", f"{declared.type} has no field {field!r} to remove")
    for field in upgrade.default:
        if field not in after:
            place = ("upgrade", "default", field)
            yield declared.fault(place, "upgrade", f"{following.type} has no field {field!r}")
