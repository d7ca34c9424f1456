"""What holds for every zone, window and moment, compared with a plain walk from minute to minute."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.timing.windows import Window, hold_until

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FIRST = datetime(1995, 1, 2, tzinfo=UTC)
LAST = datetime(2037, 12, 31, tzinfo=UTC)
ZONES = sorted(available_timezones() - {"localtime"})

minutes = st.integers(0, 24 * 60 - 1)
windows = st.tuples(minutes, minutes).filter(lambda edges: edges[0] != edges[1])
spreads = st.one_of(st.just(timedelta(0)), st.timedeltas(timedelta(0), DAY))
randoms = st.floats(0, 1, exclude_max=True)


@cache
def days_of_change(zone: str) -> list[datetime]:
    """List the UTC days in which the clocks of a zone are changed; none does so twice in a fortnight."""
    fortnights = [FIRST + DAY * number for number in range(0, (LAST - FIRST) // DAY, 14)]
    return [
        start
        + DAY * bisect_left(range(14), True, key=lambda day: differs(start, start + DAY * (day + 1), zone))
        for start in fortnights
        if differs(start, start + 14 * DAY, zone)
    ]


def differs(before: datetime, after: datetime, zone: str) -> bool:
    return offset(before, ZoneInfo(zone)) != offset(after, ZoneInfo(zone))


@st.composite
def situations(draw: st.DrawFn) -> tuple[datetime, ZoneInfo, Window]:
    """Choose a zone, a window and a moment within two days of a change of the clocks, if there is any."""
    zone = draw(st.sampled_from(ZONES))
    days = days_of_change(zone) or [FIRST + DAY, LAST]
    now = draw(st.sampled_from(days)) + draw(st.timedeltas(-2 * DAY, 2 * DAY))
    return now, ZoneInfo(zone), Window(*draw(windows))


def allowed_minutes(window: Window) -> set[int]:
    length = (window.end - window.start) % (24 * 60)
    return {(window.start + passed) % (24 * 60) for passed in range(length)}


def is_allowed(moment: datetime, zone: ZoneInfo, allowed: set[int]) -> bool:
    shown = moment.astimezone(zone).time()
    return shown.hour * 60 + shown.minute in allowed


def first_allowed(now: datetime, zone: ZoneInfo, allowed: set[int]) -> datetime:
    """Walk to the first allowed minute; since 1995 clocks have changed at whole minutes only."""
    moment = now.replace(second=0, microsecond=0)
    while moment < now or not is_allowed(moment, zone, allowed):
        moment += MINUTE
    return moment


@settings(max_examples=250, deadline=None)
@given(situations())
def test_it_is_what_a_walk_from_minute_to_minute_finds(situation: tuple[datetime, ZoneInfo, Window]) -> None:
    now, zone, window = situation
    allowed = allowed_minutes(window)
    held = hold_until(now, zone, window)
    if is_allowed(now, zone, allowed):
        assert held is None
    else:
        opening = first_allowed(now, zone, allowed)
        assert held == (opening + MINUTE if is_allowed(opening + MINUTE, zone, allowed) else opening)


@settings(max_examples=250, deadline=None)
@given(situations(), spreads, randoms)
def test_the_chosen_moment_is_inside_the_first_opening_and_never_before_now(
    situation: tuple[datetime, ZoneInfo, Window], spread: timedelta, random: float
) -> None:
    now, zone, window = situation
    held = hold_until(now, zone, window, spread=spread, random=random)
    if held is None:
        return
    allowed = allowed_minutes(window)
    opening = first_allowed(now, zone, allowed)
    assert now < opening <= held <= opening + MINUTE + spread
    passed = [opening + MINUTE * number for number in range((held - opening) // MINUTE + 1)]
    assert all(is_allowed(moment, zone, allowed) for moment in [*passed, held])
    assert hold_until(held, zone, window) is None


@settings(max_examples=250, deadline=None)
@given(situations(), spreads, randoms)
def test_nobody_waits_longer_than_a_day_and_what_the_clocks_add(
    situation: tuple[datetime, ZoneInfo, Window], spread: timedelta, random: float
) -> None:
    now, zone, window = situation
    held = hold_until(now, zone, window, spread=spread, random=random)
    if held is None:
        return
    length = MINUTE * len(allowed_minutes(window))
    forward = offset(held, zone) - offset(now, zone)
    if forward < timedelta(0):
        # The clock was set back: that much of the day comes twice.
        assert held - now < DAY - forward
    elif forward < length:
        assert held - now < DAY
    else:
        # The clock was set forward over the whole window, which then opens on the next day.
        assert held - now < 2 * DAY - forward
    if abs(forward) <= length:
        assert held - now < DAY + length


def offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    found = moment.astimezone(zone).utcoffset()
    assert found is not None
    return found


def test_every_zone_agrees_with_the_walk_around_its_changes() -> None:
    window = Window.parse("01:15-02:45")
    allowed = allowed_minutes(window)
    for name in ZONES:
        zone = ZoneInfo(name)
        for day in days_of_change(name)[:2] or [FIRST]:
            now = day + 13 * HOUR
            held = hold_until(now, zone, window)
            expected = first_allowed(now, zone, allowed)
            assert held == (None if expected == now else expected + MINUTE), (name, now)
