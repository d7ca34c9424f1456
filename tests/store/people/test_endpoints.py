import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tocsin.domain.people.devices import DeviceSettings
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, Registered
from tocsin.store.people.endpoints import webhook as endpoints
from tocsin.store.people.endpoints.webhook import MOST_ACTIVE, AlreadyActive, EndpointRow, TooManyEndpoints
from tocsin.store.pool import Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://hooks.example.com/a"


async def added(
    pool: Pool, user_id: str = "ada", url: str = URL, secret: str = "whsec_1", now: datetime = NOW
) -> EndpointRow:
    row = await endpoints.add(pool, user_id, url, secret, now)
    assert isinstance(row, EndpointRow)
    return row


async def secret_of(pool: Pool, row: EndpointRow) -> str:
    secret: str = await pool.fetchval("select secret from devices where id = $1", row.id)
    return secret


async def test_an_endpoint_is_a_device_with_a_secret(pool: Pool) -> None:
    row = await added(pool)

    stored = await pool.fetchrow("select * from devices where id = $1", row.id)
    assert (stored["provider"], stored["platform"], stored["token"], stored["secret"]) == (
        "webhook",
        "server",
        URL,
        "whsec_1",
    )
    assert (stored["push_enabled"], stored["token_kind"]) == (True, "token")


async def test_two_people_may_be_told_at_one_url(pool: Pool) -> None:
    of_ada, of_bob = await added(pool, "ada"), await added(pool, "bob", secret="whsec_2")

    assert of_ada.id != of_bob.id
    assert (await secret_of(pool, of_ada), await secret_of(pool, of_bob)) == ("whsec_1", "whsec_2")


async def test_a_url_is_registered_once_and_keeps_its_secret(pool: Pool) -> None:
    row = await added(pool)

    assert await endpoints.add(pool, "ada", URL, "whsec_2", NOW) == AlreadyActive(row.id)
    assert await secret_of(pool, row) == "whsec_1"


async def test_a_retired_endpoint_comes_back_with_a_new_secret(pool: Pool) -> None:
    row = await added(pool)
    await endpoints.retire(pool, "ada", row.id, NOW)

    back = await added(pool, secret="whsec_2", now=NOW + timedelta(days=1))

    assert (back.id, back.retired_at, back.retired_reason) == (row.id, None, None)
    assert back.registered_at == NOW + timedelta(days=1)
    assert await secret_of(pool, back) == "whsec_2"


async def test_a_person_has_at_most_ten_that_are_active(pool: Pool) -> None:
    rows = [await added(pool, url=f"{URL}{number}") for number in range(MOST_ACTIVE)]

    assert await endpoints.add(pool, "ada", URL, "whsec_1", NOW) == TooManyEndpoints()
    await endpoints.retire(pool, "ada", rows[0].id, NOW)
    await added(pool)
    await added(pool, "bob")


async def test_many_at_once_are_no_more_than_ten(pool: Pool) -> None:
    results = await asyncio.gather(
        *(endpoints.add(pool, "ada", f"{URL}{number}", "whsec_1", NOW) for number in range(15))
    )

    assert sum(isinstance(result, EndpointRow) for result in results) == MOST_ACTIVE


async def test_devices_of_other_kinds_are_no_endpoints(pool: Pool) -> None:
    phone = await devices.register(
        pool,
        DeviceRegistration(user_id="ada", token="t1", platform="android", provider="fcm"),
        DeviceSettings(),
        NOW,
    )
    assert isinstance(phone, Registered)

    assert await endpoints.of_user(pool, "ada", include_retired=True) == []
    assert await endpoints.retire(pool, "ada", phone.device.id, NOW) is None
    assert (
        await endpoints.change_secret(pool, "ada", phone.device.id, lambda _: "whsec_2", actor="test") is None
    )


async def test_the_active_come_first_and_the_newest_at_the_top(pool: Pool) -> None:
    rows = [await added(pool, url=f"{URL}{n}", now=NOW + timedelta(hours=n)) for n in range(3)]
    await endpoints.retire(pool, "ada", rows[2].id, NOW)

    everything = await endpoints.of_user(pool, "ada", include_retired=True)
    active = await endpoints.of_user(pool, "ada", include_retired=False)

    assert [row.id for row in everything] == [rows[1].id, rows[0].id, rows[2].id]
    assert active == everything[:2]


async def test_nobody_touches_another_persons_endpoint(pool: Pool) -> None:
    row = await added(pool, "ada")

    assert await endpoints.retire(pool, "bob", row.id, NOW) is None
    assert await endpoints.change_secret(pool, "bob", row.id, lambda _: "whsec_2", actor="test") is None
    assert await endpoints.retire(pool, "ada", uuid4(), NOW) is None
    assert await secret_of(pool, row) == "whsec_1"


async def test_retiring_again_changes_nothing(pool: Pool) -> None:
    row = await added(pool)
    first = await endpoints.retire(pool, "ada", row.id, NOW)

    assert first is not None
    assert (first.retired_at, first.retired_reason) == (NOW, "unregistered")
    assert await endpoints.retire(pool, "ada", row.id, NOW + timedelta(days=1)) == first


async def test_changes_of_one_secret_follow_each_other(pool: Pool) -> None:
    row = await added(pool)

    await asyncio.gather(
        *(
            endpoints.change_secret(pool, "ada", row.id, lambda present: f"{present}+", actor="test")
            for _ in range(5)
        )
    )

    assert await secret_of(pool, row) == "whsec_1+++++"


async def test_the_secret_of_a_retired_endpoint_stays(pool: Pool) -> None:
    row = await added(pool)
    await endpoints.retire(pool, "ada", row.id, NOW)

    assert await endpoints.change_secret(pool, "ada", row.id, lambda _: "whsec_2", actor="test") is None


async def test_a_url_shows_in_no_repr(pool: Pool) -> None:
    row = await added(pool)

    assert URL not in repr(row)
    assert URL not in repr([row])
