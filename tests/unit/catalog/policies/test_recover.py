"""The policy `recover` and the defaults of the deployment: what they are read as, and what is wrong."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.catalog.policies.test_ordering import TYPE, catalog
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.catalog import CHANNELS, DEFAULT_ATTEMPTS, DEFAULT_BACKOFF, Policies, Recovery
from tocsin.domain.delivery.backoff import Ladder
from tocsin.domain.delivery.settings import DeliverySettings
from tocsin.domain.errors import SettingsError
from tocsin.settings.load import load_settings

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def declared(root: Path, *lines: str) -> Path:
    return catalog(root, TYPE + "".join(f"    {line}\n" for line in lines))


def policies(root: Path, settings: DeliverySettings | None = None) -> Policies:
    return load_catalog(root, (settings or DeliverySettings()).policies).types["order_paid"].policies


def test_a_type_that_declares_nothing_has_what_the_deployment_sets(tmp_path: Path) -> None:
    settings = DeliverySettings(default_ttl_days=2, recover_every_seconds=120, recover_for_days=1)

    found = policies(declared(tmp_path), settings)

    assert (found.ttl_seconds, found.recover) == (172_800, Recovery(every=2 * MINUTE, lasts=DAY))


def test_attempts_and_backoff_can_be_set_for_all_types(tmp_path: Path) -> None:
    settings = DeliverySettings(attempts=9, backoff="ladder(1m, 5m)")

    silent = policies(declared(tmp_path / "silent"), settings)
    own = policies(declared(tmp_path / "own", "attempts: {push: 2}", "backoff: ladder(7m)"), settings)

    assert [silent.attempts_for(channel) for channel in CHANNELS] == [9] * len(CHANNELS)
    assert silent.backoff == Ladder((MINUTE, 5 * MINUTE))
    assert (own.attempts_for("push"), own.attempts_for("email")) == (2, 9)
    assert own.backoff == Ladder((7 * MINUTE,))
    assert DeliverySettings().policies.backoff == DEFAULT_BACKOFF
    assert DeliverySettings().policies.attempts_for("push") == DEFAULT_ATTEMPTS


def test_a_backoff_of_the_settings_that_is_none_is_a_fault() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"TOCSIN_DELIVERY__BACKOFF": "soon", "TOCSIN_DELIVERY__ATTEMPTS": "3"})

    assert [fault.field for fault in caught.value.faults] == ["delivery.backoff (TOCSIN_DELIVERY__BACKOFF)"]


def test_what_a_type_declares_comes_first(tmp_path: Path) -> None:
    found = policies(declared(tmp_path, "ttl_seconds: 60", "recover: {every: 10m}"))

    assert (found.ttl_seconds, found.recover) == (60, Recovery(every=10 * MINUTE, lasts=28 * DAY))


def test_without_settings_the_defaults_are_28_days_and_every_five_minutes(tmp_path: Path) -> None:
    found = policies(declared(tmp_path))

    assert (found.ttl_seconds, found.recover) == (28 * 86_400, Recovery(every=5 * MINUTE, lasts=28 * DAY))


@pytest.mark.parametrize(("recover", "attempts"), [("{every: 5m, for: 0s}", 5), ("{every: 5m, for: 15m}", 8)])
def test_recovery_is_bounded(tmp_path: Path, recover: str, attempts: int) -> None:
    found = policies(declared(tmp_path, f"recover: {recover}"))

    numbers = [number for number in range(5, 20) if found.recovery_after("push", number) is None]
    assert numbers[0] == attempts


@pytest.mark.parametrize(
    ("recover", "fault"),
    [
        ("{every: 5s}", "must be at least 60s and at most 1d, not 5s"),
        ("{for: 29d}", "must be at least 0s and at most 28d, not 29d"),
        ("{every: soon}", "'soon' is not a duration"),
    ],
)
def test_a_faulty_recovery_is_named(tmp_path: Path, recover: str, fault: str) -> None:
    (found,) = check(declared(tmp_path, f"recover: {recover}")).faults

    assert found.field == "types/order_paid.yaml:9"
    assert fault in found.message
