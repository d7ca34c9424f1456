"""What the buttons and switches of the demo's page do, each through the API or the sandbox."""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, TypeAlias, assert_never, get_args
from uuid import UUID

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.preview import example_payload
from tocsin.cli.demo.page.calls import DemoCalls
from tocsin.cli.demo.people import NIGHT, PEOPLE, DemoPerson, Installation, install, zone_at
from tocsin.client.intents import Intent
from tocsin.domain.catalog import Channel, NotificationType
from tocsin.domain.delivery.states import WAITING
from tocsin.domain.people.preferences import categories
from tocsin.engine.clock import utc_now
from tocsin.sandbox import Latency, Outage, Sandbox
from tocsin.sandbox.phones import Received
from tocsin.wire.answers import Taken

PersonSwitch: TypeAlias = Literal["night", "opted_out", "signed_out", "uninstalled"]
ProviderSwitch: TypeAlias = Literal["down", "slow"]
PERSON_SWITCHES: tuple[PersonSwitch, ...] = get_args(PersonSwitch)
PROVIDER_SWITCHES: tuple[ProviderSwitch, ...] = get_args(ProviderSwitch)
PROVIDERS = (*(person.provider for person in PEOPLE), "smtp")
SLOW_SECONDS = 2.0
EVERYONE = "everyone"
_MOST_REMEMBERED = 200


class Example(msgspec.Struct, frozen=True):
    """A type of the catalog with a payload to send."""

    type: NotificationType
    payload: Mapping[str, Any]


class Stage:
    """The people, their devices and the providers of one demo, and what has been sent from its page."""

    def __init__(self, sandbox: Sandbox, calls: DemoCalls, catalog: Catalog) -> None:
        self.sandbox = sandbox
        self.calls = calls
        self.people = {person.user_id: person for person in PEOPLE}
        self.installed: dict[str, Installation] = {}
        self.examples = examples_of(catalog)
        self._refusable = refusable(catalog, self.examples.values())
        self.sent: deque[UUID] = deque(maxlen=_MOST_REMEMBERED)
        self.cleared_at = utc_now()

    async def enter(self, person: DemoPerson) -> None:
        """Put a person into the directory and register their one device."""
        app = self.calls.app(person.user_id)
        for device in await app.devices():
            # An earlier demo on the same data has left it.
            await app.unregister_device(device_id=device.device_id)
        await self._restore(person, reinstall=True)

    async def send(
        self, type_name: str, users: Sequence[str], payload: Mapping[str, Any] | None = None, key: str = ""
    ) -> Taken:
        """Send a notification, the example of its type unless a payload is given."""
        given = self.examples[type_name].payload if payload is None else payload
        taken = await self.calls.producer.send(
            type_name, users=users, payload=given, idempotency_key=key or f"demo-{secrets.token_hex(8)}"
        )
        self.remember(taken.notification_id)
        return taken

    async def send_many(self, intents: Sequence[Intent]) -> list[UUID]:
        """Send several notifications at once; return their ids."""
        answers = await self.calls.producer.send_many(intents)
        ids: list[UUID] = [answer.notification_id for answer in answers if isinstance(answer, Taken)]
        for notification_id in ids:
            self.remember(notification_id)
        return ids

    def remember(self, notification_id: UUID) -> None:
        """Make a notification the newest that was sent."""
        if not self.sent or self.sent[-1] != notification_id:
            self.sent.append(notification_id)

    async def switch_person(self, person: DemoPerson, switch: PersonSwitch, *, on: bool) -> None:
        """Turn a switch of a person on or off."""
        app = self.calls.app(person.user_id)
        match switch:
            case "night":
                await self.move(person, night=on)
            case "opted_out":
                await app.change_preferences(self._choices(wanted=False if on else None))
            case "signed_out" if on:
                await app.unregister_device(token=self.installed[person.user_id].token)
            case "signed_out":
                await self.register(person)
            case "uninstalled" if on:
                self.sandbox.phones.unregister(self.installed[person.user_id].target)
            case "uninstalled":
                await self._reinstall(person)
            case _:
                assert_never(switch)

    def switch_provider(self, provider: str, switch: ProviderSwitch, *, on: bool) -> None:
        """Turn a switch of a provider on or off."""
        faults = self.sandbox.faults_of(provider)
        match switch:
            case "down":
                faults.outage(Outage() if on else None)
            case "slow":
                faults.latency(Latency(SLOW_SECONDS) if on else None)
            case _:
                assert_never(switch)

    def is_uninstalled(self, person: DemoPerson) -> bool:
        """Return whether the provider does not know a person's app any more."""
        return not self.sandbox.phones.is_registered(self.installed[person.user_id].target)

    def messages_of(self, person: DemoPerson) -> list[Received]:
        """List the pushes on a person's device and the mails in their mailbox."""
        found = map(self.sandbox.phones.find, (self.installed[person.user_id].target, person.email))
        return [received for phone in found if phone for received in phone.messages]

    async def restore(self, *users: str) -> None:
        """Put the switches of some people back, and those of their providers."""
        await asyncio.gather(*(self._restore(self.people[user_id]) for user_id in users))

    async def reset(self) -> None:
        """Put every switch back, cancel what waits, and clear the devices."""
        for notification_id in self.sent:
            shown = await self.calls.producer.show(notification_id)
            if any(delivery.state in WAITING for delivery in shown.deliveries):
                await self.calls.producer.cancel(notification_id)
        self.sent.clear()
        self.sandbox.reset()
        self.cleared_at = utc_now()
        await asyncio.gather(*(self._restore(person, reinstall=True) for person in self.people.values()))

    async def move(self, person: DemoPerson, *, night: bool) -> None:
        """Set a person's time zone to one in which it is night now, or day."""
        now = utc_now()
        zone = zone_at(NIGHT, now) if night else person.day_zone(now)
        await self.calls.producer.put_user(
            person.user_id, email=person.email, locale=person.locale, timezone=zone
        )

    async def register(self, person: DemoPerson) -> None:
        """Register a person's device, as their app does when it starts."""
        app, installed = self.calls.app(person.user_id), self.installed[person.user_id]
        await app.register_device(
            installed.token, person.platform, provider=person.provider, locale=person.locale
        )

    async def _restore(self, person: DemoPerson, *, reinstall: bool = False) -> None:
        await self.switch_person(person, "night", on=False)
        await self.switch_person(person, "opted_out", on=False)
        if reinstall or self.is_uninstalled(person):
            await self._reinstall(person)
        elif not await self.calls.app(person.user_id).devices():
            await self.register(person)
        for switch in PROVIDER_SWITCHES:
            self.switch_provider(person.provider, switch, on=False)

    async def _reinstall(self, person: DemoPerson) -> None:
        before = self.installed.get(person.user_id)
        self.installed[person.user_id] = install(self.sandbox, person)
        await self.register(person)
        if before is not None:
            # A person has one device here; a token that its app replaced reaches nobody.
            await self.calls.app(person.user_id).unregister_device(token=before.token)

    def _choices(self, *, wanted: bool | None) -> Mapping[str, Mapping[str, bool | None]]:
        return {category: dict.fromkeys(channels, wanted) for category, channels in self._refusable.items()}


def refusable(catalog: Catalog, examples: Iterable[Example]) -> Mapping[str, AbstractSet[Channel]]:
    """Return the channels of every category of a catalog, and of those that payloads of examples choose."""
    found = {each.category: set(each.channels) for each in categories(catalog.types.values())}
    for example in examples:
        found.setdefault(example.type.category, set()).update(example.type.channels)
    return found


def examples_of(catalog: Catalog) -> Mapping[str, Example]:
    """Return an example of each type of a catalog, by its name."""
    return {name: _example(catalog, found) for name, found in sorted(catalog.types.items())}


def _example(catalog: Catalog, found: NotificationType) -> Example:
    payload = example_payload(catalog, found)
    # The category may be chosen by the payload.
    resolved, _ = catalog.resolve(found.name, found.version, payload)
    return Example(resolved, payload)
