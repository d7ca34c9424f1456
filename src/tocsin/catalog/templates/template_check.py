"""Checks, before anything is sent, that templates and upgrades work for every payload a schema allows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from jinja2 import UndefinedError
from jinja2.exceptions import SecurityError

from tocsin.catalog.declaration import Declaration
from tocsin.catalog.examples import example_payloads, fields_without_example
from tocsin.catalog.formats.values import FormatError
from tocsin.catalog.schema import KeyPath, dotted
from tocsin.catalog.templates.css import InlineError
from tocsin.catalog.templates.jinja import CompiledTemplate, NotTextError
from tocsin.domain.catalog import Payload, Upgrade, upgraded
from tocsin.domain.digest import digest_payload
from tocsin.domain.faults import Fault

_SHOWN = 80

TextCheck: TypeAlias = Callable[[str], str | None]
"""Returns what is wrong with a rendered text, if anything."""


def accepted_examples(declaration: Declaration) -> list[Payload]:
    """Build the example payloads that a type's schema accepts."""
    examples = example_payloads(declaration.type.payload_schema)
    return [payload for payload in examples if declaration.schema.accepts(payload)]


def example_faults(declaration: Declaration, examples: Sequence[Payload]) -> Iterator[Fault]:
    """List the payload fields that occur in no example, so that nothing can be checked with them.

    A field that has no example of its own is the cause why others occur in none; it alone is listed.
    """
    advice = "give it `examples:` in the schema"
    if lacking := fields_without_example(declaration.type.payload_schema):
        for key_path in lacking:
            name = ".".join(map(str, ("payload", *key_path[1::2])))
            message = f"no example can be made for {name}; {advice}"
            yield declaration.fault(("payload", *key_path), "no_example", message)
        return
    if not examples:
        message = f"no example can be made for the payload as a whole; {advice}"
        yield declaration.fault(("payload",), "no_example", message)
        return
    covered = {field for payload in examples for field in payload}
    for field in declaration.type.payload_schema.get("properties", {}):
        if field not in covered:
            message = f"no example of the payload has {field}; give the payload `examples:` that have it"
            yield declaration.fault(("payload", "properties", field), "no_example", message)


def digest_examples(examples: Sequence[Payload]) -> list[Payload]:
    """Build for each example a digest of it alone, and a digest of three in which it comes last."""
    size = len(examples)
    return [
        digest_payload(members)
        for last, payload in enumerate(examples)
        for members in ([payload], [examples[(last - 2) % size], examples[last - 1], payload])
    ]


def template_faults(
    template: CompiledTemplate,
    fields: Collection[str],
    examples: Sequence[Payload],
    *,
    may_be_blank: bool,
    check: TextCheck | None = None,
) -> list[Fault]:
    """List the unknown fields that a template reads, else what fails when the examples are rendered."""
    unknown = [
        Fault(
            field=template.source.location(line),
            code="unknown_variable",
            message=f"{name!r} is not a field of the payload, which has: {', '.join(fields) or 'none'}",
        )
        for name, line in template.names.items()
        if name not in fields
    ]
    if unknown:
        return unknown
    faults: dict[str, Fault] = {}
    for payload in examples:
        fault = _render_fault(template, payload, check, may_be_blank=may_be_blank)
        if fault is not None:
            faults.setdefault(fault.field, fault)
    return list(faults.values())


def _render_fault(
    template: CompiledTemplate, payload: Payload, check: TextCheck | None, *, may_be_blank: bool
) -> Fault | None:
    try:
        text = template(payload)
    except Exception as error:  # noqa: BLE001 - a template can raise anything, and each is a fault
        code, message = _failure(error)
        return Fault(field=template.location_of(error), code=code, message=message)
    location = template.source.location(1)
    if not may_be_blank and not text.strip():
        message = "the text is blank for a payload that the schema allows"
        return Fault(field=location, code="blank", message=message)
    if check and (problem := check(text)):
        message = f"{problem}; it renders as {text[:_SHOWN]!r} for a payload that the schema allows"
        return Fault(field=location, code="value", message=message)
    return None


def _failure(error: Exception) -> tuple[str, str]:
    """Return the code and the message for an exception of a template."""
    match error:
        case UndefinedError():
            advice = "guard what the schema leaves optional with `is defined` or the default filter"
            return "undefined", f"{error.message}; {advice}"
        case SecurityError():
            return "sandbox", f"the sandbox refuses this: {error.message}"
        case FormatError():
            return "format", f"{error}; the schema allows this: narrow the field, or give it `examples:`"
        case InlineError():
            advice = "correct its <style> and style= for a payload that the schema allows"
            return "css", f"the CSS cannot be inlined: {error}; {advice}"
        case NotTextError():
            return "not_text", str(error)
        case _:
            return "render", f"fails for a payload that the schema allows: {type(error).__name__}: {error}"


def upgrade_faults(
    declaration: Declaration, upgrade: Upgrade, following: Declaration, examples: Sequence[Payload]
) -> list[Fault]:
    """List the fields that an upgrade misnames, else the violations of the next version's schema."""
    if misnamed := list(_misnamed(declaration, upgrade, following)):
        return misnamed
    violations: dict[str, str] = {}
    for payload in examples:
        for found in following.schema.violations(upgraded(upgrade, payload)):
            violations.setdefault(dotted("payload", found.key_path), found.message)
    prefix = f"an upgraded payload does not fit {following.type}"
    return [
        declaration.fault(("upgrade",), "upgrade", f"{prefix}: {field} {message}")
        for field, message in violations.items()
    ]


def _misnamed(declaration: Declaration, upgrade: Upgrade, following: Declaration) -> Iterator[Fault]:
    targets = list(upgrade.rename.values())
    named: Iterator[tuple[KeyPath, str, Declaration, str]] = chain(
        ((("rename", field), field, declaration, " to rename") for field in upgrade.rename),
        ((("rename", field), target, following, "") for field, target in upgrade.rename.items()),
        ((("remove", index), field, declaration, " to remove") for index, field in enumerate(upgrade.remove)),
        ((("default", field), field, following, "") for field in upgrade.default),
    )
    for key_path, field, version, purpose in named:
        if field not in version.type.payload_schema.get("properties", {}):
            message = f"{version.type} has no field {field!r}{purpose}"
            yield declaration.fault(("upgrade", *key_path), "upgrade", message)
        elif key_path[0] == "rename" and version is following and targets.count(field) > 1:
            message = f"more than one field is renamed to {field!r}"
            yield declaration.fault(("upgrade", *key_path), "upgrade", message)
