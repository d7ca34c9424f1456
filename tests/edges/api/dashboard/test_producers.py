"""The page of producers: periodic runs, streams, alarms of sources and refused intents."""

import re
from datetime import timedelta

from tests.edges.api.dashboard.paging import every_page
from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import new_lease_id, uuid7
from tocsin.domain.timing.schedule import Schedule
from tocsin.engine.clock import utc_now
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.sources import progress, refused, stream_offsets
from tocsin.store.sources.progress import Scheduled
from tocsin.store.sources.refused import RefusedIntent
from tocsin.store.sources.stream_offsets import StreamName

PATH = "/dashboard/producers"
PERIODIC = f"{PATH}/periodic/new_customers"
HOSTILE = "<script>alert(1)</script>\"'"


async def register(edge: Edge, late: timedelta = timedelta()) -> None:
    now, schedule = utc_now(), Schedule("*/15 * * * *", "Europe/Istanbul")
    scheduled = Scheduled(
        name="new_customers", kind="scan", schedule=schedule, value_type="bigint", initial=7
    )
    await progress.register(edge.pool, scheduled, next_run_at=now - late, now=now)


async def test_a_run_is_requested_and_a_checkpoint_set(edge: Edge) -> None:
    await register(edge)
    visit = await signed_in(edge, Role.OPERATOR)

    ran = await visit.post(f"{PERIODIC}/run")
    rewound = await visit.post(f"{PERIODIC}/rewind", to="3")

    assert [ran.headers["location"], rewound.headers["location"]] == [PATH, PATH]
    [row] = await progress.list_progress(edge.pool)
    assert (row.run_requested_at is not None, row.last_value) == (True, 3)
    shown = await visit.shown(PATH)
    assert "new_customers continues from its new checkpoint." in shown
    assert 'data-kind="info">requested' in shown


async def test_a_run_that_is_overdue_is_shown_as_late(edge: Edge) -> None:
    await register(edge, late=timedelta(minutes=7))
    visit = await signed_in(edge, Role.VIEWER)

    assert re.search(r">late</span> 7 min", await visit.shown(PATH))


async def test_wrong_checkpoints_and_names_are_refused_and_escaped(edge: Edge) -> None:
    await register(edge)
    visit = await signed_in(edge, Role.OPERATOR)

    wrong = await visit.post(f"{PERIODIC}/rewind", to=HOSTILE)
    unknown = await visit.post(f"{PATH}/periodic/%3Cscript%3Ealert(1)/run")

    assert (wrong.status_code, unknown.status_code) == (422, 404)
    for answer in (wrong, unknown):
        assert "<script>alert" not in answer.text
    assert (await visit.post(f"{PERIODIC}/rewind", to="9" * 10_001)).status_code == 422
    [row] = await progress.list_progress(edge.pool)
    assert row.last_value == 7


async def test_streams_are_shown_with_their_checkpoints_and_readers(edge: Edge) -> None:
    for name, seconds in (("orders", 60.0), (HOSTILE, 0.0)):
        lease = new_lease_id()
        stream = StreamName(name, f"intents:{name}")
        await stream_offsets.hold(edge.pool, stream, lease, seconds)
        to = stream_offsets.Offset("1700000000000-3", 1_234)
        assert await stream_offsets.move(edge.pool, stream, lease, seconds, before="0-0", to=to)
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown(PATH)

    assert "1700000000000-3" in shown
    assert "1,234" in shown
    assert (shown.count(">reading<"), shown.count(">no reader<")) == (1, 1)
    assert "<script>alert" not in shown


async def test_only_alarms_of_sources_are_listed(edge: Edge) -> None:
    async with edge.pool.acquire() as connection:
        alarms = {Alarm("outbox:shop", "row_refused", HOSTILE): 3, Alarm("fcm", "quota", "of a provider"): 1}
        await raise_alarms(connection, alarms, utc_now())
    visit = await signed_in(edge, Role.VIEWER)

    shown = await visit.shown(PATH)

    assert "outbox:shop" in shown
    assert "of a provider" not in shown
    assert "<script>alert" not in shown


async def test_refused_intents_are_paged_and_escaped(edge: Edge) -> None:
    entries = [
        RefusedIntent(
            id=uuid7(),
            producer=f"shop-{number}",
            source="http",
            code="invalid_intent",
            type=HOSTILE,
            idempotency_key=HOSTILE,
            faults='[{"field": "<b>payload", "code": "missing", "message": "<script>alert(2)"}]',
            content=HOSTILE,
            refused_at=utc_now(),
        )
        for number in range(3)
    ]
    await refused.record(edge.pool, entries)
    visit = await signed_in(edge, Role.VIEWER)

    shown = "".join([page async for page in every_page(visit, f"{PATH}/refused", "?limit=2")])

    assert "<script>alert" not in shown
    assert shown.count("&lt;b&gt;payload") == 3
    assert re.findall(r">shop-(\d)<", shown) == ["2", "1", "0"]


async def test_a_viewer_sees_producers_and_changes_nothing(edge: Edge) -> None:
    await register(edge)
    visit = await signed_in(edge, Role.VIEWER)

    assert f'action="{PERIODIC}/' not in await visit.shown(PATH)
    assert (await visit.post(f"{PERIODIC}/run")).status_code == 403
    assert (await visit.post(f"{PERIODIC}/rewind", to="3")).status_code == 403
    [row] = await progress.list_progress(edge.pool)
    assert (row.run_requested_at, row.last_value) == (None, 7)
