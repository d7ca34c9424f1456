"""Order: which earlier deliveries of its ordering group a delivery waits for."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.decide.cases import DAY, PHONE, TABLET, deciding, facts, profile, verdict_on
from tocsin.domain.decide import Go, Hold, order_step
from tocsin.domain.delivery.held_by import HeldByOrder

OWN, ANOTHER = PHONE.id, TABLET.id


@pytest.mark.parametrize(
    ("device_id", "blockers", "held"),
    [
        pytest.param(None, set(), False, id="nothing waits ahead"),
        pytest.param(OWN, set(), False, id="nothing waits ahead of its device"),
        pytest.param(None, {None}, True, id="an earlier one is not fanned out, neither is it"),
        pytest.param(OWN, {None}, True, id="an earlier one that is not fanned out may go to its device"),
        pytest.param(OWN, {OWN}, True, id="an earlier one waits for its device"),
        pytest.param(OWN, {ANOTHER}, False, id="an earlier one waits for another device"),
        pytest.param(OWN, {ANOTHER, OWN}, True, id="earlier ones wait for both devices"),
        pytest.param(OWN, {ANOTHER, None}, True, id="one waits elsewhere and one is not fanned out"),
        pytest.param(None, {OWN}, False, id="it is fanned out first, then waits device by device"),
        pytest.param(None, {OWN, ANOTHER}, False, id="all of its devices have one waiting ahead"),
        pytest.param(None, {OWN, None}, True, id="one has its device and one is not fanned out"),
    ],
)
def test_a_delivery_waits_only_for_earlier_ones_that_may_go_to_its_device(
    device_id: UUID | None, blockers: set[UUID | None], *, held: bool
) -> None:
    verdict = verdict_on(facts(device_id=device_id, order_blockers=blockers))

    if held:
        assert isinstance(verdict, Hold)
        assert verdict.held_by == HeldByOrder()
        assert deciding(verdict) == order_step(DAY)
    else:
        assert isinstance(verdict, Go)
        assert "order" not in {step.rule for step in verdict.steps}


def test_what_may_be_fanned_out_past_device_blockers_has_every_destination() -> None:
    both = profile(devices=(PHONE, TABLET))
    verdict = verdict_on(facts(profile=both, order_blockers={OWN}))

    assert isinstance(verdict, Go)
    assert verdict.destinations == (PHONE, TABLET)


devices = st.none() | st.integers(1, 5).map(lambda number: UUID(int=number))


@given(devices, st.sets(devices))
def test_only_an_unknown_device_or_its_own_blocks_a_delivery(
    device_id: UUID | None, blockers: set[UUID | None]
) -> None:
    verdict = verdict_on(facts(device_id=device_id, order_blockers=blockers))

    blocked = None in blockers or (device_id is not None and device_id in blockers)
    assert isinstance(verdict, Hold if blocked else Go)
