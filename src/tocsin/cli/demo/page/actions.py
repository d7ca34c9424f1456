"""The actions of the demo's page, as its forms send them."""

from typing import Annotated, TypeAlias, assert_never

import msgspec
from msgspec import Meta

from tocsin.cli.demo.page.stage import EVERYONE, PROVIDERS, PersonSwitch, ProviderSwitch, Stage
from tocsin.cli.demo.page.tour import Tour
from tocsin.domain.errors import TocsinError

Name = Annotated[str, Meta(max_length=100)]
Number = Annotated[str, Meta(pattern="^[0-6]\\Z")]
Position = Annotated[str, Meta(pattern="^(on|off)\\Z")]


class Send(msgspec.Struct, frozen=True, tag_field="action", tag="send", forbid_unknown_fields=True):
    """Send the example of a type to one person or to everyone."""

    type: Name
    to: Name


class SwitchPerson(msgspec.Struct, frozen=True, tag_field="action", tag="person", forbid_unknown_fields=True):
    """Turn a switch of a person on or off."""

    name: Name
    switch: PersonSwitch
    turn: Position


class SwitchProvider(
    msgspec.Struct, frozen=True, tag_field="action", tag="provider", forbid_unknown_fields=True
):
    """Turn a switch of a provider on or off."""

    name: Name
    switch: ProviderSwitch
    turn: Position


class OpenStep(msgspec.Struct, frozen=True, tag_field="action", tag="open", forbid_unknown_fields=True):
    """Show a step of the tour."""

    step: Number


class RunStep(msgspec.Struct, frozen=True, tag_field="action", tag="run", forbid_unknown_fields=True):
    """Run a step of the tour."""

    step: Number


class Reset(msgspec.Struct, frozen=True, tag_field="action", tag="reset", forbid_unknown_fields=True):
    """Put everything back."""


Action: TypeAlias = Send | SwitchPerson | SwitchProvider | OpenStep | RunStep | Reset


class UnknownNameError(TocsinError):
    """A form names a type, person or provider that the demo does not have."""


async def perform(action: Action, stage: Stage, tour: Tour) -> None:
    """Do what a form asks for."""
    match action:
        case Send(type=name, to=to):
            known = name in stage.examples and (to == EVERYONE or to in stage.people)
            _check(f"{name} to {to}", known=known)
            await stage.send(name, list(stage.people) if to == EVERYONE else [to])
        case SwitchPerson():
            _check(action.name, known=action.name in stage.people)
            person = stage.people[action.name]
            await stage.switch_person(person, action.switch, on=action.turn == "on")
        case SwitchProvider():
            _check(action.name, known=action.name in PROVIDERS)
            stage.switch_provider(action.name, action.switch, on=action.turn == "on")
        case OpenStep():
            tour.open(int(action.step))
        case RunStep():
            tour.start(int(action.step))
        case Reset():
            await tour.reset()
            await stage.reset()
        case _:
            assert_never(action)


def _check(name: str, *, known: bool) -> None:
    if not known:
        raise UnknownNameError(f"The demo does not have {name!r}.")
