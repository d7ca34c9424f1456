"""What the demo's page shows, read from the API and the virtual devices."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from tocsin.api.bodies import ProviderList
from tocsin.cli.demo.page.calls import DemoCalls
from tocsin.cli.demo.page.stage import PROVIDERS, PersonSwitch, ProviderSwitch, Stage
from tocsin.cli.demo.people import DemoPerson
from tocsin.engine.health.provider_health import ProviderHealth
from tocsin.engine.inspect.person import Person
from tocsin.sandbox.appearance import appearance
from tocsin.sandbox.phones import Received
from tocsin.wire.notifications import Notification
from tocsin.wire.person.inbox import InboxItem, InboxPage

MOST_NOTICES = 4
FRESH_SECONDS = 0.2


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message on a device, a mail in the mailbox or an item of the inbox."""

    kind: Literal["push", "mail", "inbox"]
    title: str
    body: str
    at: datetime


class ShownPerson(msgspec.Struct, frozen=True, kw_only=True):
    """A person with the switches that are on, and the newest of what has reached them."""

    person: DemoPerson
    found: Person
    on: frozenset[PersonSwitch]
    notices: list[Notice]
    older: int
    retired: str | None


class ShownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider with its health and the switches that are on."""

    health: ProviderHealth
    on: frozenset[ProviderSwitch]

    @property
    def sent(self) -> int:
        """How many messages it took in the last minutes."""
        return sum(each.count for each in self.health.outcomes if each.outcome == "sent")

    @property
    def failed(self) -> int:
        """How many attempts failed in the last minutes."""
        return sum(each.count for each in self.health.outcomes if each.outcome != "sent")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page shows at one moment, apart from the tour."""

    people: list[ShownPerson]
    providers: list[ShownProvider]
    notification: Notification | None


class Snapshots:
    """Reads snapshots; tabs that ask at about the same time share one."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._read: Snapshot | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def read(self) -> Snapshot:
        """Return a snapshot that is a fraction of a second old at most."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if self._read is None or now - self._read_at > FRESH_SECONDS:
                self._read, self._read_at = await read_snapshot(self._stage), now
            return self._read

    def expire(self) -> None:
        """Read anew at the next call."""
        self._read = None


async def read_snapshot(stage: Stage) -> Snapshot:
    """Read the people, the providers and the notification that was sent last."""
    reading = [_read_person(stage, person) for person in stage.people.values()]
    people, health, notification = await asyncio.gather(
        asyncio.gather(*reading), read_providers(stage.calls), _read_newest(stage)
    )
    providers = [
        ShownProvider(health=health[name], on=frozenset(_faults_on(stage, name)))
        for name in PROVIDERS
        if name in health
    ]
    return Snapshot(people=list(people), providers=providers, notification=notification)


async def read_providers(calls: DemoCalls) -> Mapping[str, ProviderHealth]:
    """Read the health of every provider in use."""
    found = await calls.operator.call(ProviderList, "GET", "admin", "providers")
    return {health.name: health for health in found.providers}


async def _read_newest(stage: Stage) -> Notification | None:
    return await stage.calls.producer.show(stage.sent[-1]) if stage.sent else None


async def _read_person(stage: Stage, person: DemoPerson) -> ShownPerson:
    found, inbox = await asyncio.gather(
        stage.calls.operator.call(Person, "GET", "admin", "people", person.user_id, limit=1),
        stage.calls.person(person.user_id).call(InboxPage, "GET", "inbox", limit=MOST_NOTICES),
    )
    messages = [
        *map(_of_message, stage.messages_of(person)),
        *(_of_item(item) for item in inbox.items if item.created_at >= stage.cleared_at),
    ]
    messages.sort(key=lambda notice: notice.at, reverse=True)
    reasons = [device.retired_reason for device in found.devices if device.retired_at is not None]
    has_device = any(device.retired_at is None for device in found.devices)
    return ShownPerson(
        person=person,
        found=found,
        on=frozenset(_switches_on(stage, person, found, has_device=has_device)),
        notices=messages[:MOST_NOTICES],
        older=len(messages[MOST_NOTICES:]),
        retired=None if has_device or not reasons else reasons[0],
    )


def _switches_on(
    stage: Stage, person: DemoPerson, found: Person, *, has_device: bool
) -> Iterator[PersonSwitch]:
    if not found.zone.open_now:
        yield "night"
    if any(not wanted for channels in found.preferences.values() for wanted in channels.values()):
        yield "opted_out"
    if stage.is_uninstalled(person):
        yield "uninstalled"
    elif not has_device:
        yield "signed_out"


def _faults_on(stage: Stage, provider: str) -> Iterator[ProviderSwitch]:
    active = stage.sandbox.faults_of(provider).active()
    if active.outage is not None:
        yield "down"
    if active.latency is not None:
        yield "slow"


def _of_message(received: Received) -> Notice:
    look = appearance(received)
    kind: Literal["push", "mail"] = "mail" if received.provider == "smtp" else "push"
    return Notice(kind=kind, title=look.title, body=look.body, at=received.at)


def _of_item(item: InboxItem) -> Notice:
    return Notice(kind="inbox", title=item.title, body=item.body, at=item.created_at)
