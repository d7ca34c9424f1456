import pytest

from tests.engine.periodic.feeds import NOON
from tests.engine.periodic.stage import PeriodicStage
from tests.engine.stage import Stage
from tocsin.store.pool import Pool


@pytest.fixture
def periodic(stage: Stage, pool: Pool) -> PeriodicStage:
    stage.clock.move_to(NOON)
    return PeriodicStage(stage, pool)
