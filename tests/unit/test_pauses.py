from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from tocsin.domain.outcome import Defer
from tocsin.engine.pause import Pauses

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)

QUOTA = Defer("QUOTA_EXCEEDED", MINUTE)
REFUSED = Defer("UNAUTHENTICATED", 5 * MINUTE, alarm=True)
ONE_DEVICE = Defer("QUOTA_EXCEEDED", MINUTE, pauses=False)
NO_APNS_KEY = Defer("THIRD_PARTY_AUTH_ERROR", 5 * MINUTE, pauses=False, alarm=True)


def levels(*notes: tuple[Defer, datetime]) -> list[str]:
    pauses = Pauses()
    with capture_logs() as lines:
        for outcome, at in notes:
            pauses.note("fcm", outcome, at)
    return [line["log_level"] for line in lines]


def test_a_provider_rests_as_long_as_it_asked() -> None:
    pauses = Pauses()
    assert pauses.left("fcm", NOW) is None

    pauses.note("fcm", QUOTA, NOW)

    assert pauses.left("fcm", NOW + 20 * SECOND) == 40 * SECOND
    assert pauses.left("fcm", NOW + MINUTE) is None
    assert pauses.left("apns", NOW) is None


def test_a_longer_rest_wins_and_a_shorter_one_does_not_cut_it() -> None:
    pauses = Pauses()
    pauses.note("fcm", REFUSED, NOW)
    pauses.note("fcm", QUOTA, NOW)

    assert pauses.left("fcm", NOW) == 5 * MINUTE


def test_the_quota_of_one_device_does_not_stop_the_others() -> None:
    pauses = Pauses()
    pauses.note("fcm", ONE_DEVICE, NOW)
    pauses.note("fcm", NO_APNS_KEY, NOW)

    assert pauses.left("fcm", NOW) is None


def test_all_rest_only_when_each_does() -> None:
    pauses = Pauses()
    assert pauses.shortest([], NOW) is None
    pauses.note("fcm", REFUSED, NOW)

    assert pauses.shortest(["fcm", "apns"], NOW) is None
    pauses.note("apns", QUOTA, NOW)
    assert pauses.shortest(["fcm", "apns"], NOW) == MINUTE
    assert pauses.shortest(["fcm", "apns"], NOW + MINUTE) is None


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([(QUOTA, NOW), (QUOTA, NOW + SECOND)], ["warning"]),
        ([(QUOTA, NOW), (QUOTA, NOW + MINUTE)], ["warning", "warning"]),
        ([(REFUSED, NOW), (REFUSED, NOW + SECOND)], ["error"]),
        ([(QUOTA, NOW), (REFUSED, NOW + SECOND)], ["warning", "error"]),
        ([(NO_APNS_KEY, NOW), (NO_APNS_KEY, NOW + MINUTE)], ["error"]),
        ([(NO_APNS_KEY, NOW), (NO_APNS_KEY, NOW + 5 * MINUTE)], ["error", "error"]),
        ([(ONE_DEVICE, NOW)], []),
    ],
    ids=["one-pause", "two-pauses", "one-alarm", "alarm-in-pause", "alarm-without-pause", "again", "silent"],
)
def test_an_alarm_sounds_once_per_wait(notes: list[tuple[Defer, datetime]], expected: list[str]) -> None:
    assert levels(*notes) == expected
