from collections.abc import Collection

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.ingress.directory.services import running_service
from tests.ingress.redis_streams.conftest import QUICK, STREAM, Galaxy
from tests.waiting import found
from tocsin.ingress.directory.lookup import DirectoryUnavailableError, People, Person
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
        refused = [await galaxy.append("ada", user_id, key=user_id) for user_id in ("../x", "odd")]
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


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (b"500", b"oops", "the directory answered with status 500"),
        (b"200", b"[]", "the directory answered with something else than a JSON object"),
        (b"200", b"<html>", "the directory answered with something else than a JSON object"),
        (b"200", b" " * 70_000, "the directory answered with more than 65,536 bytes"),
    ],
)
async def test_deleting_the_entry_that_the_alarm_has_releases_the_stream(
    galaxy: Galaxy, status: bytes, body: bytes, reason: str
) -> None:
    async with running_service() as service:
        service.people["ada"], service.answers["grace"] = {}, (status, body)
        settings = DirectorySettings(kind="http", url=service.url, concurrency=1)
        stuck = await galaxy.append("ada", "grace", key="1")
        last = await galaxy.append("ada", key="2")
        with capture_logs() as lines:
            async with open_directory(settings) as directory, galaxy.consuming(directory=directory):
                detail = await galaxy.alarm("directory_unavailable")
                await galaxy.redis.xdel(STREAM, stuck)
                await galaxy.reaches(last)

    assert detail == f"3 tries in a row failed: reading waits at the entry {stuck}: {reason}"
    (failed, *_) = [line for line in lines if line["event"] == "duty failed"]
    assert (stuck in failed["error"], reason in failed["error"]) == (True, True)
    assert "grace" not in str(lines)
    assert [row["external_id"] for row in await galaxy.notifications()] == [last]
    assert await galaxy.pool.fetchval("select count(*) from alarms where code = 'entries_lost'") == 0


async def test_a_failure_about_people_of_another_stream_holds_nobody_up(galaxy: Galaxy) -> None:
    class Shared:
        """Fails for somebody else, as a look-up does that another stream waits for too."""

        async def find(self, user_ids: Collection[str]) -> People:
            raise DirectoryUnavailableError("of others", dict.fromkeys(user_ids, Person()))

        async def aclose(self) -> None:
            """Close nothing."""

    last = await galaxy.append("ada", key="1")
    async with galaxy.consuming(directory=Shared()):
        await galaxy.reaches(last)

    assert await galaxy.pool.fetchval("select count(*) from alarms") == 0


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
