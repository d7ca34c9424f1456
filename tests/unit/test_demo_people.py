"""The people of the demo: day and night at any hour of the year, and what they opt out of."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.catalogs import shipped
from tocsin.cli.demo.page.stage import examples_of, refusable
from tocsin.cli.demo.people import NIGHT, PEOPLE, zone_at
from tocsin.domain.people.preferences import categories

HALF_HOURS = [timedelta(minutes=30 * count) for count in range(48)]


# Clocks are changed in March, April, October and November.
@pytest.mark.parametrize(("month", "day"), [(1, 1), (3, 9), (3, 30), (4, 6), (7, 1), (10, 26), (11, 2)])
def test_it_is_night_somewhere_and_day_for_everybody(month: int, day: int) -> None:
    for passed in HALF_HOURS:
        now = datetime(2031, month, day, tzinfo=UTC) + passed
        assert now.astimezone(ZoneInfo(zone_at(NIGHT, now))).hour in range(1, 6), now
        for person in PEOPLE:
            assert now.astimezone(ZoneInfo(person.day_zone(now))).hour in range(10, 20), now


def test_who_opts_out_refuses_every_category_of_the_catalog_by_every_channel() -> None:
    """The category `general` is that of messages whose payload names none, as the example does."""
    catalog = shipped()
    refused = refusable(catalog, examples_of(catalog).values())

    for category in categories(catalog.types.values()):
        assert refused[category.category] >= set(category.channels)
    assert {"general", "newComment"} <= set(refused)
