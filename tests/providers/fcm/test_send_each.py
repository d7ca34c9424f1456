"""The messages of a batch are answered one by one."""

from contextlib import aclosing

from tests.providers.conformance import send_one
from tests.providers.fcm.rig import FcmRig
from tests.providers.rig import NOW, a_message
from tocsin.domain.delivery.outcome import Outcome, Rejected, Sent
from tocsin.providers.fcm.provider import FcmProvider
from tocsin.sandbox import Hang


async def test_an_answer_does_not_wait_for_those_of_its_batch(rig: FcmRig) -> None:
    rig.sandbox.faults.script("slow", Hang())
    provider = rig.provider()
    assert isinstance(provider, FcmProvider)
    batch = [a_message("slow"), a_message("phone"), a_message("\ud800")]
    outcomes: dict[int, Outcome] = {}

    async with aclosing(provider.send_each(batch, now=NOW)) as answers:
        while len(outcomes) < 2:
            outcomes.update(await anext(answers))

    assert isinstance(outcomes[1], Sent)
    assert isinstance(outcomes[2], Rejected)


async def test_a_renewed_access_token_does_not_wait_for_those_of_its_batch(rig: FcmRig) -> None:
    provider = rig.provider()
    await send_one(provider, "phone")
    rig.sandbox.faults.script("slow", Hang())
    rig.sandbox.fcm.tokens.revoke_all()
    outcomes: dict[int, Outcome] = {}

    assert isinstance(provider, FcmProvider)
    batch = [a_message("slow"), a_message("phone"), a_message("tablet")]
    async with aclosing(provider.send_each(batch, now=NOW)) as answers:
        while len(outcomes) < 2:
            outcomes.update(await anext(answers))

    assert {place: type(outcome) for place, outcome in outcomes.items()} == {1: Sent, 2: Sent}
    assert rig.sandbox.stats().access_tokens_issued == 2
