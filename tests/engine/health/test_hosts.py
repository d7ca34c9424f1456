"""Circuit breakers of single hosts."""

from datetime import timedelta
from typing import Any

from tests.engine.health.circuits import TOUCHY, circuits, in_state, long_host
from tests.engine.stage import Stage, StubProvider, an_intent
from tests.waiting import found
from tocsin.domain.delivery.outcome import Retry
from tocsin.engine.accept.answers import Accepted


class Hosts(StubProvider):
    """Reaches targets on hosts of their own."""

    name = "webhook"
    concurrency_per_host = 10

    def host_of(self, target: str) -> str:
        return target.split("/")[2]


async def test_faults_of_a_host_end_what_is_meant_for_it(stage: Stage) -> None:
    """A stranger's host that never comes back must not be waited for for ever."""
    hook = Hosts(concurrency=10)
    await stage.device("ada", provider="webhook", token="https://gone.example/hook")
    hook.script("https://gone.example/hook", *[Retry("network_error")] * 20)
    async with stage.working(hook):
        (answer,) = await stage.an_acceptor({"webhook": ("webhook",)}).accept(
            "shop", [an_intent("ada", type="hook_only", payload={})]
        )
        assert isinstance(answer, Accepted)
        notification_id = answer.notification_id

        async def is_dead() -> bool:
            (row,) = await stage.deliveries(notification_id)
            if row["due_at"] > stage.clock():
                stage.clock.advance(timedelta(minutes=10))
            return bool(row["state"] == "dead")

        await found(is_dead)


async def test_a_host_that_is_down_holds_its_own_messages_only(stage: Stage) -> None:
    hook = Hosts(concurrency=10)
    acceptor = stage.an_acceptor({"webhook": ("webhook",)})

    async def post(user: str, key: str) -> Any:
        (answer,) = await acceptor.accept(
            "shop", [an_intent(user, type="hook_only", payload={}, idempotency_key=key)]
        )
        assert isinstance(answer, Accepted)
        return answer.notification_id

    await stage.device("ada", provider="webhook", token="https://down.example/hook")
    await stage.device("bob", provider="webhook", token="https://up.example/hook")
    hook.script("https://down.example/hook", *[Retry("network_error", after=timedelta(hours=1))] * 5)
    async with stage.working(hook, health=TOUCHY):
        for number in range(5):
            await post("ada", f"{number}")
        await in_state(stage, "webhook/down.example", "open")
        held = await post("ada", "held")

        async def is_held() -> bool:
            (row,) = await stage.deliveries(held)
            return bool(row["held_by"] == "host:webhook/down.example")

        await found(is_held)
        await stage.settled(await post("bob", "bob"), "sent")
        stage.clock.advance(timedelta(hours=2))
        await stage.settled(held, "sent")


async def test_a_host_too_long_for_an_index_has_its_circuit_and_harms_no_other(stage: Stage) -> None:
    hook = Hosts(concurrency=10)
    stage.acceptor = stage.an_acceptor({"webhook": ("webhook",)})
    victim = f"https://{long_host()}/hook"
    await stage.device("ada", provider="webhook", token=victim)
    await stage.device("bob", provider="webhook", token="https://up.example/hook")
    hook.script(victim, *[Retry("network_error", after=timedelta(hours=1))] * 5)
    async with stage.working(hook, health=TOUCHY):
        for number in range(5):
            await stage.accept("ada", type="hook_only", payload={}, idempotency_key=f"{number}")
        (name,) = await found(lambda: circuits(stage))
        await stage.accept("ada", type="hook_only", payload={}, idempotency_key="held")
        (held_by,) = await found(
            lambda: stage.pool.fetchrow("select held_by from deliveries where held_by is not null")
        )
        fine = await stage.accept("bob", type="hook_only", payload={}, idempotency_key="fine")
        await stage.settled(fine, "sent")

    assert held_by == f"host:{name}"
    assert len(name) < 100
