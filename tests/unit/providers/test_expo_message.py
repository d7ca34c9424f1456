from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.delivery.message import Message, PushAppearance
from tocsin.domain.delivery.outcome import Rejected
from tocsin.domain.ids import new_delivery_id, new_notification_id
from tocsin.providers.expo.render import PAYLOAD_BYTES, render
from tocsin.providers.rendering import LONGEST_COLLAPSE_ID

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOKEN = "ExponentPushToken[phone]"


def a_message(**changes: Any) -> Message:
    fields: dict[str, Any] = {
        "delivery_id": new_delivery_id(),
        "notification_id": new_notification_id(),
        "type": "workout_assigned",
        "target": TOKEN,
        "title": "New workout",
        "body": "Legs",
        "data": {"type": "workout_assigned"},
        "expires_at": NOW + timedelta(hours=1),
    }
    return Message(**fields | changes)


def written(message: Message) -> dict[str, Any]:
    body = render(message, NOW)
    assert isinstance(body, bytes)
    push: dict[str, Any] = msgspec.json.decode(body)
    return push


def test_a_plain_message_says_no_more_than_it_has_to() -> None:
    message = a_message()

    assert written(message) == {
        "to": TOKEN,
        "title": "New workout",
        "body": "Legs",
        "data": {"type": "workout_assigned"},
        "priority": "high",
        "ttl": 3_600,
        "tag": str(message.delivery_id),
        "collapseId": str(message.delivery_id),
    }


def test_the_look_of_a_push_is_said_in_the_words_of_expo() -> None:
    appearance = PushAppearance(
        severity="critical",
        image="https://example.org/a.png",
        icon="bell",
        sound="default",
        badge=0,
        deep_link="fit://workouts/7",
        route="/workouts/7",
        click_action="WORKOUT",
        channel="workouts",
    )

    push = written(a_message(appearance=appearance, collapse_key="workout-7"))

    assert push == {
        "to": TOKEN,
        "title": "New workout",
        "body": "Legs",
        "data": {"type": "workout_assigned", "route": "/workouts/7", "url": "fit://workouts/7"},
        "priority": "high",
        "ttl": 3_600,
        "tag": "workout-7",
        "collapseId": "workout-7",
        "interruptionLevel": "time-sensitive",
        "richContent": {"image": "https://example.org/a.png"},
        "mutableContent": True,
        "icon": "bell",
        "sound": "default",
        "badge": 0,
        "categoryId": "WORKOUT",
        "channelId": "workouts",
    }


@pytest.mark.parametrize(
    ("appearance", "places"),
    [
        (PushAppearance(), {}),
        (PushAppearance(route="/w/7"), {"route": "/w/7", "url": "/w/7"}),
        (PushAppearance(deep_link="fit://w/7"), {"url": "fit://w/7"}),
    ],
)
def test_a_router_finds_the_place_to_open_in_the_data(
    appearance: PushAppearance, places: dict[str, str]
) -> None:
    assert written(a_message(appearance=appearance, data={}))["data"] == places


def test_a_background_push_has_no_face() -> None:
    appearance = PushAppearance(
        push_type="background", badge=3, sound="default", image="https://example.org/a.png"
    )

    push = written(a_message(appearance=appearance))

    assert (push["_contentAvailable"], push["priority"], push["badge"]) == (True, "normal", 3)
    assert not {"title", "body", "sound", "richContent"} & push.keys()


@pytest.mark.parametrize(
    ("left", "ttl"),
    [(timedelta(seconds=-5), 0), (timedelta(seconds=1.9), 1), (timedelta(days=400), 2_419_200)],
)
def test_the_time_to_live_stays_within_what_the_services_take(left: timedelta, ttl: int) -> None:
    assert written(a_message(expires_at=NOW + left))["ttl"] == ttl


def test_without_an_end_the_services_keep_their_own() -> None:
    assert not {"ttl", "expiration"} & written(a_message(expires_at=None)).keys()


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_a_collapse_id_fits_and_two_keys_never_share_one(one: str, other: str) -> None:
    pushes = [written(a_message(collapse_key=key)) for key in (one, other)]

    ids = [push["collapseId"] for push in pushes]
    assert all(len(each) <= LONGEST_COLLAPSE_ID and each.isascii() and each.isprintable() for each in ids)
    assert (ids[0] == ids[1]) == (one == other)
    assert [push["tag"] for push in pushes] == [one, other]


def test_only_what_reaches_the_device_counts_against_the_limit() -> None:
    data = {"type": "workout_assigned"}
    room = PAYLOAD_BYTES - len(msgspec.json.encode(data)) - len("New workout")

    fits = render(a_message(body="x" * room), NOW)
    bursts = render(a_message(body="x" * (room + 1)), NOW)

    assert isinstance(fits, bytes)
    assert bursts == Rejected("payload_too_large", f"{PAYLOAD_BYTES + 1} bytes; Expo takes {PAYLOAD_BYTES}")


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text()))
def test_texts_are_written_as_they_are(title: str, body: str, data: dict[str, str]) -> None:
    push = written(a_message(title=title, body=body, data=data))

    assert (push["title"], push["body"], push["data"]) == (title, body, data)
