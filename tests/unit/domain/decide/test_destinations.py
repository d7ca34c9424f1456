"""Destinations: where a delivery can be sent by each channel, or why it cannot."""

from typing import Any
from uuid import UUID

import pytest

from tests.unit.domain.decide.cases import DAY, ENDPOINT, PHONE, PROVIDERS, TABLET, deciding, facts
from tocsin.domain.catalog import Channel
from tocsin.domain.decide import Go, Skip, Step, decide, destinations, zone_of
from tocsin.domain.delivery.reasons import MEANING, Reason
from tocsin.domain.people.profile import Destination, RecipientProfile
from tocsin.domain.timing.quiet_hours import QuietHours, QuietHoursSettings

QUIET = QuietHours.compile(QuietHoursSettings(default_timezone="UTC"))
ADDRESS = "ada@example.org"
MAILBOX = Destination(None, ADDRESS, "smtp", "email")
ALL_DEVICES = (TABLET, ENDPOINT, PHONE)


def found(channel: Channel, providers: set[str] | None = None, **changes: Any) -> Any:
    fields: dict[str, Any] = {"devices": ALL_DEVICES, "mailbox": ADDRESS}
    address, device_id = changes.pop("address", None), changes.pop("device_id", None)
    user_id = changes.pop("user_id", None if address else "ada")
    profile = RecipientProfile(**fields | changes)
    return destinations(
        channel,
        profile,
        user_id=user_id,
        address=address,
        device_id=device_id,
        providers=PROVIDERS if providers is None else providers,
    )


def test_a_push_goes_to_every_device_the_one_used_last_first_and_to_no_endpoint() -> None:
    assert found("push") == (TABLET, PHONE)


def test_a_webhook_goes_to_every_endpoint_and_to_no_device() -> None:
    assert found("webhook") == (ENDPOINT,)


def test_a_mail_goes_to_the_mailbox_of_the_person() -> None:
    assert found("email") == (MAILBOX,)


@pytest.mark.parametrize(
    ("address", "target", "token_kind"),
    [
        ("topic:news", "news", "topic"),
        ("condition:'a' in topics && 'b' in topics", "'a' in topics && 'b' in topics", "condition"),
    ],
)
def test_a_broadcast_goes_to_its_topic_or_condition_by_fcm(
    address: str, target: str, token_kind: Any
) -> None:
    expected = Destination(None, target, "fcm", "topic", token_kind=token_kind)

    assert found("push", address=address, devices=()) == (expected,)
    assert found("push", {"apns"}, address=address, devices=()) is Reason.PROVIDER_UNAVAILABLE


@pytest.mark.parametrize(
    ("channel", "changes", "reason"),
    [
        ("push", {"devices": ()}, Reason.NO_DEVICE),
        ("push", {"devices": (ENDPOINT,)}, Reason.NO_DEVICE),
        ("push", {"devices": (), "device_id": PHONE.id}, Reason.DEVICE_LOST),
        ("webhook", {"devices": ()}, Reason.NO_ENDPOINT),
        ("webhook", {"devices": (PHONE,)}, Reason.NO_ENDPOINT),
        ("webhook", {"devices": (), "device_id": ENDPOINT.id}, Reason.DEVICE_LOST),
        ("email", {"mailbox": None}, Reason.NO_ADDRESS),
        ("email", {"suppressed": True}, Reason.ADDRESS_SUPPRESSED),
        ("email", {"mailbox": None, "suppressed": True}, Reason.NO_ADDRESS),
    ],
)
def test_who_cannot_be_reached_has_the_reason(
    channel: Channel, changes: dict[str, Any], reason: Reason
) -> None:
    assert found(channel, **changes) is reason
    # The reason of the person comes before that of the deployment.
    assert found(channel, set(), **changes) is reason


@pytest.mark.parametrize("channel", ["push", "email", "webhook"])
def test_a_channel_none_of_whose_providers_is_configured_is_unavailable(channel: Channel) -> None:
    assert found(channel, set()) is Reason.PROVIDER_UNAVAILABLE
    assert found(channel, {"sns"}) is Reason.PROVIDER_UNAVAILABLE


def test_devices_of_providers_that_are_not_configured_are_left_out() -> None:
    assert found("push", {"fcm", "smtp"}) == (PHONE,)
    assert found("push", {"apns"}) == (TABLET,)


def test_a_delivery_that_has_its_device_is_unavailable_with_its_provider() -> None:
    assert found("push", {"apns"}, devices=(PHONE,), device_id=PHONE.id) is Reason.PROVIDER_UNAVAILABLE


def test_suppression_stops_mail_alone() -> None:
    assert found("push", suppressed=True) == (TABLET, PHONE)
    assert found("webhook", suppressed=True) == (ENDPOINT,)


@pytest.mark.parametrize(
    ("providers", "device_id", "devices", "reason"),
    [
        (PROVIDERS, None, (), Reason.NO_DEVICE),
        (PROVIDERS, PHONE.id, (), Reason.DEVICE_LOST),
        (frozenset({"apns"}), PHONE.id, (PHONE,), Reason.PROVIDER_UNAVAILABLE),
    ],
)
def test_a_decision_records_why_there_is_no_destination(
    providers: frozenset[str], device_id: UUID | None, devices: tuple[Destination, ...], reason: Reason
) -> None:
    known = RecipientProfile(devices=devices)
    verdict = decide(facts(profile=known, device_id=device_id), QUIET, providers)

    assert isinstance(verdict, Skip)
    assert verdict.reason is reason
    assert deciding(verdict) == Step(rule="device", result="skip", detail=MEANING[reason], at=DAY)


@pytest.mark.parametrize("channel", ["push", "email", "webhook"])
def test_a_decision_to_send_has_the_destinations_of_its_channel(channel: Channel) -> None:
    known = RecipientProfile(devices=ALL_DEVICES, mailbox=ADDRESS)
    verdict = decide(facts(profile=known, channel=channel), QUIET, PROVIDERS)

    assert isinstance(verdict, Go)
    assert verdict.destinations == found(channel)


def test_an_endpoint_has_no_part_in_the_choice_of_the_zone() -> None:
    hook = ENDPOINT._replace(timezone="Asia/Tokyo")
    phone = PHONE._replace(timezone="Europe/Istanbul")
    where = [
        RecipientProfile(devices=(hook, phone)),
        RecipientProfile(devices=(hook,), device_timezone="Europe/Istanbul"),
        RecipientProfile(device_timezone="Europe/Istanbul"),
    ]

    zones = [zone_of(facts(profile=known, channel="webhook"), QUIET) for known in where]

    assert [(zone.name, zone.source) for zone in zones] == [("Europe/Istanbul", "device")] * 3


def test_what_is_shown_of_a_destination_has_neither_token_nor_secret() -> None:
    assert "token-1" not in repr(PHONE)
    assert "shop.example" not in repr(ENDPOINT)
    assert "whsec" not in f"{ENDPOINT}"
