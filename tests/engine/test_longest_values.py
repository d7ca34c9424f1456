"""Identifiers of the greatest length pass every index from accept to settle."""

from datetime import timedelta

import msgspec
import pytest

from tests.engine.stage import Stage, StubProvider, a_provider
from tocsin.domain.delivery.outcome import Gone, Outcome, Retry, Sent
from tocsin.domain.intent import Audience, EmailAddress, Key, UserId
from tocsin.domain.limits import LimitsSettings


def wide(count: int) -> str:
    """Return characters of four bytes each that cannot be compressed."""
    return "".join(chr(0x1F300 + number * 7 % 1_000) for number in range(count))


USER, KEY, COLLAPSE = wide(128), wide(200), "".join(chr(33 + number) for number in range(64))
ADDRESS = f"{wide(249)}@b.co"


def test_they_are_the_longest() -> None:
    for value, kind in ((USER, UserId), (KEY, Key), (ADDRESS, EmailAddress)):
        assert msgspec.convert(value, kind) == value
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert("x" + value, kind)


@pytest.mark.parametrize("type_name", ["step", "rare", "plain"])
async def test_the_longest_identifiers_are_accepted_and_settled(stage: Stage, type_name: str) -> None:
    stage.limits = LimitsSettings(per_person_per_day=5, categories={f"{type_name}_news": 5})
    provider = StubProvider()
    await stage.device(USER, token="x" * 4_096)
    provider.script("x" * 4_096, Retry("busy" * 100, "detail" * 200, after=timedelta(0)))
    async with stage.working(provider):
        accepted = await stage.accept(
            USER, type=type_name, payload={}, idempotency_key=KEY, collapse_key=COLLAPSE
        )
        await stage.settled(accepted, "retrying", "sent")
        stage.clock.advance(timedelta(minutes=1))
        await stage.settled(accepted, "sent")


@pytest.mark.parametrize(("outcome", "state"), [(Sent("id" * 1_000), "sent"), (Gone("550" * 100), "gone")])
async def test_the_longest_address_is_settled_and_suppressed(
    stage: Stage, outcome: Outcome, state: str
) -> None:
    provider = a_provider("smtp")
    provider.script(ADDRESS, outcome)
    stage.acceptor = stage.an_acceptor({"email": ("smtp",)})
    async with stage.working(provider):
        accepted = await stage.accept(
            audience=Audience(emails=[ADDRESS]), type="mail_only", payload={}, collapse_key=COLLAPSE
        )
        await stage.settled(accepted, state)

    suppressed = await stage.pool.fetchval("select count(*) from suppressed_addresses")
    assert suppressed == (state == "gone")
