"""Proof, before anything is sent, that texts and upgrades hold for every payload a schema allows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from tocsin.catalog.declaration import Declared
from tocsin.catalog.examples import example_payloads
from tocsin.catalog.schema import Schema, dotted
from tocsin.catalog.templates import NotTextError, Text
from tocsin.domain.catalog import Payload, Upgrade, upgraded
from tocsin.domain.faults import Fault


def proven_examples(declared: Declared, schema: Schema) -> list[Payload] | Fault:
    """Make example payloads that the schema accepts."""
    made = example_payloads(declared.type.payload_schema)
    accepted = [payload for payload in made if schema.accepts(payload)]
    if accepted and made[0] == accepted[0]:
        return accepted
    against = schema.complaints(made[0]) if made else []
    wrong = against[0].place if against else ()
    steps = [step for step in wrong if isinstance(step, str)]
    place = ("payload", *(name for step in steps for name in ("properties", step)))
    message = f"no example can be made for {dotted('payload', wrong)}; give it `examples:` in the schema"
    return declared.fault(place, "no_example", message)


def text_faults(text: Text, schema: Mapping[str, Any], examples: Sequence[Payload]) -> list[Fault]:
    """Find unknown names, then whatever fails when the examples are rendered."""
    known = schema.get("properties", {})
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
        return sorted(unknown, key=lambda fault: int(fault.field.rpartition(":")[2]))
    failed: dict[str, Fault] = {}
    for payload in examples:
        try:
            text(payload)
        except Exception as error:  # noqa: BLE001 - a template can raise anything, and each is a fault
            place = text.place_of(error)
            failed.setdefault(place, _failure(place, error))
    return list(failed.values())


def _failure(place: str, error: Exception) -> Fault:
    match error:
        case UndefinedError():
            advice = "guard what the schema leaves optional with `is defined` or the default filter"
            return Fault(field=place, code="undefined", message=f"{error.message}; {advice}")
        case SecurityError():
            return Fault(field=place, code="sandbox", message=f"the sandbox refuses this: {error.message}")
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
