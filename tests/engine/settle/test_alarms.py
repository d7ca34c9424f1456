"""The alarm of an unknown type stands while deliveries wait for it, whoever clears it."""

from tests.engine.stage import Stage, StubProvider
from tests.waiting import found
from tocsin.catalog.catalog import Catalog

STANDING = "select id from alarms where code = 'type_unknown' and cleared_at is null"


async def test_an_alarm_that_was_cleared_is_raised_again_while_the_type_is_unknown(stage: Stage) -> None:
    await stage.device("ada")
    notification_id = await stage.accept("ada", type="plain", payload={})
    known = stage.catalog
    stage.catalog = Catalog(each for each in known.compiled.values() if each.type.name != "plain")
    async with stage.working(StubProvider()):
        raised = await found(lambda: stage.pool.fetchval(STANDING))
        await stage.pool.execute("update alarms set cleared_at = now() where id = $1", raised)
        assert await found(lambda: stage.pool.fetchval(STANDING)) != raised
        stage.catalog.replace(known)
        await stage.settled(notification_id, "sent")
