from collections.abc import AsyncIterator, Iterator

import pytest

from tests.acceptance.telemetry.collector import Collector, collecting
from tests.acceptance.telemetry.site import Site, running_site
from tests.databases import fresh_database


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="package")
async def site(
    server_url: str, template_database: str, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """Run a server through which everything was sent, once for all tests of its telemetry."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "TOCSIN_METRICS__NAMES": "galaxy",
    }
    async with (
        fresh_database(server_url, template_database) as database_url,
        fresh_database(server_url) as shop_url,
        running_site(database_url, shop_url, tmp_path_factory.mktemp("site"), **environment) as running,
    ):
        await running.register_everybody()
        await running.send_everything()
        await running.settled()
        yield running
