import msgspec

from tests.ingress.directory.services import running_service
from tests.ingress.redis_streams.conftest import QUICK, Galaxy
from tests.waiting import found
from tocsin.ingress.directory.open import open_directory
from tocsin.ingress.directory.settings import DirectorySettings


async def test_recipients_are_looked_up_before_an_entry_is_accepted(galaxy: Galaxy) -> None:
    async with running_service() as service:
        service.people["ada"] = {"email": "ada@example.com", "preferred_language": "de"}
        settings = DirectorySettings(kind="http", url=service.url)
        refused = await galaxy.append("ada", "nobody", key="1")
        last = await galaxy.append("ada", key="2")
        async with open_directory(settings) as directory, galaxy.consuming(directory=directory):
            await galaxy.reaches(last)

    (stored,) = await galaxy.notifications()
    (refusal,) = await galaxy.refused()
    known = await galaxy.pool.fetch("select user_id, email, locale from users")
    assert stored["external_id"] == last
    assert (refusal["code"], refusal["content"]["stream_entry_id"]) == ("recipient_not_found", refused)
    assert "nobody" not in str(refusal["faults"])
    assert [tuple(row) for row in known] == [("ada", "ada@example.com", "de")]


async def test_ids_that_a_directory_cannot_have_hold_nobody_up(galaxy: Galaxy) -> None:
    async with running_service() as service:
        service.people["ada"], service.answers["odd"] = {}, (b"400", b"no uuid")
        settings = DirectorySettings(kind="http", url=service.url)
        refused = [await galaxy.append("ada", user_id, key=user_id) for user_id in ("..", "odd")]
        last = await galaxy.append("ada", key="1")
        async with open_directory(settings) as directory, galaxy.consuming(directory=directory):
            await galaxy.reaches(last)

    stored, refusals = await galaxy.notifications(), await galaxy.refused()
    assert [row["external_id"] for row in stored] == [last]
    assert [(row["code"], row["content"]["stream_entry_id"]) for row in refusals] == [
        ("recipient_not_found", entry_id) for entry_id in refused
    ]


async def test_the_offset_waits_for_a_directory_that_fails(galaxy: Galaxy) -> None:
    async with running_service() as service:
        service.broken = b"503"
        settings = DirectorySettings(kind="http", url=service.url)
        last = await galaxy.append("ada", key="1")
        async with open_directory(settings) as directory, galaxy.consuming(directory=directory):
            assert "tries in a row failed" in await galaxy.alarm("directory_unavailable")
            assert await galaxy.offset() == "0-0"
            service.people["ada"], service.broken = {}, None
            await galaxy.reaches(last)

            async def cleared() -> bool:
                standing = "select count(*) from alarms where cleared_at is null"
                return bool(await galaxy.pool.fetchval(standing) == 0)

            await found(cleared)

    assert len(await galaxy.notifications()) == 1
    assert not await galaxy.refused()


async def test_entries_before_one_that_cannot_be_looked_up_are_accepted(galaxy: Galaxy) -> None:
    async with running_service() as service:
        service.people["ada"], service.answers["eve"] = {}, (b"503", b"busy")
        settings = DirectorySettings(kind="http", url=service.url, cache_seconds=0)
        first = await galaxy.append("ada", key="1")
        await galaxy.append("eve", key="2")
        last = await galaxy.append("ada", key="3")
        async with open_directory(settings) as directory, galaxy.consuming(directory=directory):
            await galaxy.reaches(first)
            assert "tries in a row failed" in await galaxy.alarm("directory_unavailable")
            assert await galaxy.offset() == first
            del service.answers["eve"]
            await galaxy.reaches(last)

    assert [row["code"] for row in await galaxy.refused()] == ["recipient_not_found"]


async def test_a_long_look_up_keeps_the_lease(galaxy: Galaxy) -> None:
    brief = msgspec.structs.replace(QUICK, lease_seconds=0.3)
    async with running_service() as service:
        service.people["ada"], service.seconds = {}, 0.9
        settings = DirectorySettings(kind="http", url=service.url)
        last = await galaxy.append("ada", key="1")
        async with (
            open_directory(settings) as first,
            open_directory(settings) as second,
            galaxy.consuming(brief, first),
            galaxy.consuming(brief, second),
        ):
            await galaxy.reaches(last)

    assert service.asked == {"ada": 1}
