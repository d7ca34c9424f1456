import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rows import add_device, device
from tocsin.domain.people.devices import DeviceSettings, RetiredReason, token_hash
from tocsin.store.people import devices
from tocsin.store.people.devices import DeviceRegistration, DeviceRow, NoDevice, RateLimited, Registered
from tocsin.store.pool import Pool

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MANY = DeviceSettings(registrations_per_hour=10_000)
ONE = DeviceSettings(policy="one_per_platform", registrations_per_hour=10_000)


def registration(
    user_id: str, token: str, *, platform: str = "android", replaces_token: str | None = None
) -> DeviceRegistration:
    return DeviceRegistration(
        user_id=user_id, token=token, platform=platform, provider="fcm", replaces_token=replaces_token
    )


async def register(
    pool: Pool, wanted: DeviceRegistration, rules: DeviceSettings = MANY, now: datetime = NOW
) -> Registered:
    result = await devices.register(pool, wanted, rules, now)
    assert isinstance(result, Registered)
    return result


async def active(pool: Pool, user_id: str) -> list[DeviceRow]:
    return await devices.of_user(pool, user_id, include_retired=False)


async def count_sent(pool: Pool, device_id: UUID, times: int) -> None:
    await pool.execute(
        "update devices set notification_count = $2, last_sent_at = $3 where id = $1", device_id, times, NOW
    )


async def test_a_new_owner_takes_the_device_and_starts_afresh(pool: Pool) -> None:
    first = (await register(pool, registration("ada", "t1"))).device
    await count_sent(pool, first.id, 7)
    await devices.set_consent(pool, "ada", first.id, push_enabled=False)

    moved = (await register(pool, registration("bob", "t1"), now=NOW + timedelta(hours=2))).device

    assert moved.id == first.id
    assert (moved.user_id, moved.push_enabled, moved.notification_count) == ("bob", True, 0)
    assert moved.last_sent_at is None
    assert moved.registered_at == NOW + timedelta(hours=2)
    assert await active(pool, "ada") == []


async def test_the_same_owner_keeps_consent_counters_and_what_is_not_said_again(pool: Pool) -> None:
    described = msgspec.structs.replace(registration("ada", "t1"), locale="tr-TR", timezone="Europe/Istanbul")
    first = (await register(pool, described)).device
    await count_sent(pool, first.id, 7)
    await devices.set_consent(pool, "ada", first.id, push_enabled=False)

    again = (await register(pool, registration("ada", "t1"), now=NOW + timedelta(days=1))).device

    assert (again.push_enabled, again.notification_count, again.locale) == (False, 7, "tr-TR")
    assert again.last_seen_at == NOW + timedelta(days=1)
    assert again.registered_at == NOW


async def test_registering_revives_a_retired_device(pool: Pool) -> None:
    first = (await register(pool, registration("ada", "t1"))).device
    retired = await devices.unregister(pool, "ada", token="t1", now=NOW)
    assert retired is not None
    assert retired.retired_reason == RetiredReason.UNREGISTERED

    revived = (await register(pool, registration("ada", "t1"))).device

    assert (revived.id, revived.retired_at, revived.retired_reason) == (first.id, None, None)


async def test_the_longest_unseen_device_makes_room(pool: Pool) -> None:
    made = [
        (await register(pool, registration("ada", f"t{n}"), now=NOW + timedelta(minutes=n))).device
        for n in range(5)
    ]
    await register(pool, registration("ada", "t0"), now=NOW + timedelta(minutes=10))

    sixth = await register(pool, registration("ada", "t5"), now=NOW + timedelta(minutes=11))

    assert sixth.retired == (made[1].id,)
    everything = await devices.of_user(pool, "ada", include_retired=True)
    assert [row.retired_reason for row in everything] == [None] * 5 + [RetiredReason.SURPLUS]


async def test_one_per_platform_retires_only_the_same_platform(pool: Pool) -> None:
    phone = (await register(pool, registration("ada", "t1", platform="ios"), ONE)).device
    web = (await register(pool, registration("ada", "t2", platform="web"), ONE)).device

    newer = await register(pool, registration("ada", "t3", platform="ios"), ONE)

    assert newer.retired == (phone.id,)
    assert {row.id for row in await active(pool, "ada")} == {web.id, newer.device.id}


async def test_a_refreshed_device_keeps_its_id_consent_and_counters_once(pool: Pool) -> None:
    old = (await register(pool, registration("ada", "old"))).device
    await count_sent(pool, old.id, 4)
    await devices.set_consent(pool, "ada", old.id, push_enabled=False)
    refreshed = registration("ada", "new", replaces_token="old")

    first = await register(pool, refreshed, now=NOW + timedelta(hours=1))
    second = await register(pool, refreshed, now=NOW + timedelta(hours=2))

    for each in (first, second):
        assert each.retired == ()
        assert (each.device.id, each.device.token_hash) == (old.id, token_hash("new"))
        assert (each.device.push_enabled, each.device.notification_count) == (False, 4)
        assert (each.device.registered_at, each.device.last_sent_at) == (NOW, NOW)
    everything = await devices.of_user(pool, "ada", include_retired=True)
    assert [(row.token_hash, row.retired_reason) for row in everything] == [
        (token_hash("new"), None),
        (token_hash("old"), RetiredReason.REPLACED),
    ]


@pytest.mark.parametrize("retired", [False, True], ids=["active", "retired"])
async def test_a_refresh_from_a_token_before_the_last_finds_the_same_device(
    pool: Pool, *, retired: bool
) -> None:
    first = (await register(pool, registration("ada", "t1"))).device
    await devices.set_consent(pool, "ada", first.id, push_enabled=False)
    await register(pool, registration("ada", "t2", replaces_token="t1"))
    if retired:
        await devices.unregister(pool, "ada", token="t2", now=NOW)

    # The answer was lost, so the app still names the token before.
    again = (await register(pool, registration("ada", "t3", replaces_token="t1"))).device

    assert (again.id, again.push_enabled) == (first.id, False)
    assert [row.id for row in await active(pool, "ada")] == [first.id]


async def test_a_late_registration_of_a_replaced_token_has_the_consent_of_its_device(pool: Pool) -> None:
    device = (await register(pool, registration("ada", "old"))).device
    await register(pool, registration("ada", "new", replaces_token="old"))
    await devices.set_consent(pool, "ada", device.id, push_enabled=False)

    late = (await register(pool, registration("ada", "old"))).device

    assert (late.id != device.id, late.push_enabled) == (True, False)


async def test_a_refresh_to_a_token_that_is_known_already_makes_one_device_of_both(pool: Pool) -> None:
    old = (await register(pool, registration("ada", "old"))).device
    await devices.set_consent(pool, "ada", old.id, push_enabled=False)
    # The app registered the new token by itself before it named the old one.
    known = (await register(pool, registration("ada", "new"))).device
    await count_sent(pool, old.id, 4)
    await count_sent(pool, known.id, 2)
    ends_at = NOW + timedelta(hours=12)
    await pool.executemany(
        "insert into limit_counters values ($1, $2, $3)",
        [(f"device:{old.id}", ends_at, 4), (f"device:{known.id}", ends_at, 2)],
    )

    merged = await register(pool, registration("ada", "new", replaces_token="old"))

    assert merged.retired == (known.id,)
    assert (merged.device.id, merged.device.token_hash) == (old.id, token_hash("new"))
    assert (merged.device.push_enabled, merged.device.notification_count) == (False, 6)
    counted = await pool.fetch("select key, used from limit_counters")
    assert [tuple(row) for row in counted] == [(f"device:{old.id}", 6)]
    retired = await device(pool, known.id)
    assert (retired["token"], retired["retired_reason"], retired["successor"]) == ("old", "replaced", old.id)


async def test_a_refresh_to_a_token_of_another_person_takes_it_from_them(pool: Pool) -> None:
    mine = (await register(pool, registration("ada", "old"))).device
    await devices.set_consent(pool, "ada", mine.id, push_enabled=False)
    theirs = (await register(pool, registration("bob", "new"))).device
    await count_sent(pool, theirs.id, 5)

    moved = (await register(pool, registration("ada", "new", replaces_token="old"))).device

    assert (moved.id, moved.push_enabled, moved.notification_count) == (mine.id, False, 0)
    assert await devices.of_user(pool, "bob", include_retired=True) == []


async def test_a_person_cannot_reach_a_device_through_a_token_they_gave_away(pool: Pool) -> None:
    first = (await register(pool, registration("ada", "t1"))).device
    await register(pool, registration("ada", "t2", replaces_token="t1"))
    await register(pool, registration("bob", "t2"))

    mine = (await register(pool, registration("ada", "t3", replaces_token="t1"))).device

    assert mine.id != first.id
    assert [row.id for row in await active(pool, "bob")] == [first.id]


async def test_another_persons_token_cannot_be_replaced(pool: Pool) -> None:
    theirs = (await register(pool, registration("bob", "old"))).device
    await count_sent(pool, theirs.id, 4)

    mine = await register(pool, registration("ada", "new", replaces_token="old"))

    assert (mine.retired, mine.device.notification_count) == ((), 0)
    assert [row.id for row in await active(pool, "bob")] == [theirs.id]


async def test_registrations_are_limited_by_the_hour(pool: Pool) -> None:
    rules = DeviceSettings(registrations_per_hour=2)
    await register(pool, registration("ada", "t1"), rules)
    await register(pool, registration("ada", "t2"), rules)

    assert await devices.register(pool, registration("ada", "t3"), rules, NOW) == RateLimited(
        NOW + timedelta(hours=1)
    )
    await register(pool, registration("bob", "t4"), rules)
    await register(pool, registration("ada", "t3"), rules, NOW + timedelta(hours=1))
    assert {row.token_hash for row in await active(pool, "ada")} == {
        token_hash(token) for token in ("t1", "t2", "t3")
    }


async def test_only_the_owner_can_unregister_or_change_consent(pool: Pool) -> None:
    device = (await register(pool, registration("ada", "t1"))).device

    assert await devices.unregister(pool, "bob", token="t1", now=NOW) is None
    assert await devices.unregister(pool, "bob", device_id=device.id, now=NOW) is None
    assert await devices.set_consent(pool, "bob", device.id, push_enabled=False) is None
    assert [row.push_enabled for row in await active(pool, "ada")] == [True]


async def test_unregistering_again_changes_nothing(pool: Pool) -> None:
    device = (await register(pool, registration("ada", "t1"))).device
    first = await devices.unregister(pool, "ada", device_id=device.id, now=NOW)

    assert await devices.unregister(pool, "ada", token="t1", now=NOW + timedelta(days=1)) == first


async def test_the_kind_of_a_token_is_the_one_last_registered(pool: Pool) -> None:
    wanted = registration("ada", "t1")

    assert (await register(pool, wanted)).device.token_kind == "token"
    by_installation = msgspec.structs.replace(wanted, token_kind="fid")
    assert (await register(pool, by_installation)).device.token_kind == "fid"
    assert [row.token_kind for row in await active(pool, "ada")] == ["fid"]


@pytest.mark.parametrize("rules", [MANY, ONE], ids=["many", "one_per_platform"])
async def test_a_webhook_endpoint_is_nobodys_device(pool: Pool, rules: DeviceSettings) -> None:
    address = "https://example.com/hook"
    endpoint = await add_device(pool, token=address, provider="webhook", last_seen_at=NOW - timedelta(days=9))
    before = await device(pool, endpoint)

    assert await devices.register(pool, registration("ada", address), rules, NOW) == NoDevice()
    assert await devices.register(pool, registration("bob", address), rules, NOW) == NoDevice()
    for number in range(6):
        await register(pool, registration("ada", f"t{number}", replaces_token=address), rules)
    assert await devices.unregister(pool, "ada", token=address, now=NOW) is None
    assert await devices.unregister(pool, "ada", device_id=endpoint, now=NOW) is None
    assert await devices.set_consent(pool, "ada", endpoint, push_enabled=False) is None

    assert endpoint not in {row.id for row in await devices.of_user(pool, "ada", include_retired=True)}
    assert len(await active(pool, "ada")) == (5 if rules is MANY else 1)
    assert await device(pool, endpoint) == before


@pytest.mark.parametrize("rules", [MANY, ONE], ids=["many", "one_per_platform"])
async def test_racing_registrations_of_one_person_keep_the_policy(pool: Pool, rules: DeviceSettings) -> None:
    await asyncio.gather(
        *(register(pool, registration("ada", f"t{n}"), rules, NOW + timedelta(seconds=n)) for n in range(20))
    )

    assert len(await active(pool, "ada")) == (5 if rules is MANY else 1)
    assert len(await devices.of_user(pool, "ada", include_retired=True)) == 20


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 7), st.sampled_from(["ios", "web"])),
        min_size=20,
        max_size=20,
    )
)
async def test_tokens_that_change_hands_at_once_have_one_owner_each(
    pool: Pool, moves: list[tuple[int, int, int, str]]
) -> None:
    await pool.execute("truncate devices")
    rules = DeviceSettings(max_active=2, registrations_per_hour=10_000)

    await asyncio.gather(
        *(
            register(
                pool,
                registration(f"user{owner}", f"t{token}", platform=platform, replaces_token=f"t{replaced}"),
                rules,
            )
            for owner, token, replaced, platform in moves
        )
    )

    counts = await pool.fetch("select count(*) as n from devices where retired_at is null group by user_id")
    assert all(row["n"] <= 2 for row in counts)
    known = [row["token_hash"] for row in await pool.fetch("select token_hash from devices")]
    assert sorted(known) == sorted({token_hash(f"t{token}") for _, token, _, _ in moves})


async def test_a_subscription_keeps_the_key_that_it_was_made_with(pool: Pool) -> None:
    def subscribed(endpoint: str, key: str, owner: str = "ada", **more: str) -> DeviceRegistration:
        token = msgspec.json.encode({"endpoint": f"https://push.example/{endpoint}", **more}).decode()
        return msgspec.structs.replace(registration(owner, token), sender_key=key)

    async def keys() -> dict[bytes, str]:
        rows = await pool.fetch("select token_hash, sender_key from devices")
        return {row["token_hash"]: row["sender_key"] for row in rows}

    first = subscribed("a", "old")
    await register(pool, first)
    # Seen again after a rotation, spelled in another way and by another owner.
    await register(pool, subscribed("a", "new", "bob", expirationTime="soon"))
    await register(pool, subscribed("a", "new"))
    assert await keys() == {token_hash(first.token): "old"}

    second = msgspec.structs.replace(subscribed("b", "new"), replaces_token=first.token)
    await register(pool, second)
    assert await keys() == {token_hash(first.token): "old", token_hash(second.token): "new"}

    # The old subscription is back: each key stays with its subscription.
    await register(pool, msgspec.structs.replace(subscribed("a", "newest"), replaces_token=second.token))
    assert await keys() == {token_hash(first.token): "old", token_hash(second.token): "new"}
