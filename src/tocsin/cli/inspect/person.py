"""`tocsin person`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tocsin.cli.access import checked, database_time, over_http, with_pool
from tocsin.cli.notifications.search import print_found
from tocsin.cli.output import AsJson, fail, moment, print_json, print_lines
from tocsin.domain.intent import UserId
from tocsin.domain.people.attributes import AttributeValue
from tocsin.wire.people import Device

if TYPE_CHECKING:
    from tocsin.engine.inspect.person import Person
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool


def person(
    user_id: Annotated[str, typer.Argument(metavar="USER", help="The application's own user id.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many notifications to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a person: devices, preferences, local time, limits used, and what they got and why not."""
    user_id = checked(user_id, UserId, "USER must be 1 to 128 characters without control characters.")
    found = _load(user_id, limit)
    if found is None:
        fail(f"Nothing is known of user {user_id}.")
    if as_json:
        print_json(found)
        return
    print_lines(*_lines(found))
    for item in found.notifications:
        print_found(item)


def _load(user_id: str, limit: int) -> "Person | None":
    from tocsin.engine.inspect.person import Person, read_person

    if remote := over_http():
        return remote.find(Person, "GET", "admin", "people", user_id, limit=limit)

    from tocsin.compose.catalog import read_catalog
    from tocsin.compose.parts import delivery_rules, known_toggles

    async def work(settings: "Settings", pool: "Pool") -> Person | None:
        async with known_toggles(settings, pool) as toggles, pool.acquire() as connection:
            rules = delivery_rules(settings, read_catalog(settings), toggles)
            now = await database_time(connection)
            return await read_person(connection, rules, user_id, now, limit=limit)

    return with_pool(work)


def _lines(person: "Person") -> Iterator[str]:
    directory, zone = person.directory, person.zone
    yield f"user {person.user_id}"
    if directory is None:
        yield "  not in the directory"
    else:
        suppressed = " (suppressed)" if person.address_suppressed else ""
        yield f"  e-mail {directory.email or '-'}{suppressed}, locale {directory.locale or '-'}"
        if directory.org_id is not None:
            yield f"  organisation {directory.org_id}"
        if directory.attributes:
            yield f"  attributes {', '.join(map(_attribute, directory.attributes.items()))}"
    now = "allowed now" if zone.open_now else "quiet now"
    yield f"  {zone.local_time:%Y-%m-%d %H:%M} in {zone.name} (from the {zone.source}); {now}"
    yield f"  hours {zone.allowed_window} (of the {zone.allowed_window_source})"
    yield "devices:" if person.devices else "no devices"
    for device in person.devices:
        yield f"  {device.device_id} {device.provider}/{device.platform}"
        yield f"    {_device_state(device)}, seen {moment(device.last_seen_at)}"
    if person.webhook_endpoints:
        yield f"  webhook endpoints: {person.webhook_endpoints}"
    refused = [
        f"{category} by {channel}"
        for category, channels in person.preferences.items()
        for channel, wanted in channels.items()
        if not wanted
    ]
    yield f"does not want: {', '.join(refused) or 'nothing refused'}"
    yield "limits:" if person.limits else "no limits apply"
    yield from (f"  {each.used} of {each.limit}, until {moment(each.ends_at)}" for each in person.limits)
    yield "the newest deliveries:" if person.outcomes else "no deliveries"
    for each in person.outcomes:
        why = f" {each.cause}" if each.cause else ""
        yield f"  {each.count:>4} {each.state}{why}{f': {each.meaning}' if each.meaning else ''}"


def _attribute(item: tuple[str, AttributeValue]) -> str:
    name, value = item
    text = msgspec.json.encode(value).decode()
    return f"{name}={''.join(each if each.isprintable() else chr(0xFFFD) for each in text)}"


def _device_state(device: Device) -> str:
    if device.retired_at:
        return f"retired {moment(device.retired_at)}: {device.retired_reason}"
    if not device.push_enabled:
        return "pushes switched off by the person"
    return "stale" if device.stale else "active"
