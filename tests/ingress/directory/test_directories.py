import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.ingress.directory.services import UserService, running_service
from tocsin.domain.errors import SettingsError
from tocsin.ingress.directory.lookup import Directory, DirectoryUnavailableError, Person
from tocsin.ingress.directory.open import open_directory
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.settings import load_settings


@pytest.fixture
async def service() -> AsyncIterator[UserService]:
    async with running_service() as running:
        yield running


def http(service: UserService, **changes: float) -> DirectorySettings:
    return DirectorySettings(kind="http", url=service.url, **changes)  # type: ignore[arg-type]


async def find(settings: DirectorySettings, *user_ids: str) -> dict[str, Person | None]:
    async with open_directory(settings) as directory:
        assert directory is not None
        return dict(await directory.find(user_ids))


async def test_a_service_is_asked_for_each_person(service: UserService) -> None:
    service.people["u/1"] = {"email": "ada@example.com", "preferred_language": "de", "more": 1}
    service.people["2"] = {"email": "no address", "preferred_language": "???"}

    assert await find(http(service), "u/1", "2", "3") == {
        "u/1": Person("ada@example.com", "de"),
        "2": Person(None, None),
        "3": None,
    }


@pytest.mark.parametrize("status", [b"500", b"404", b"301", b"200"])
async def test_any_other_answer_is_a_failure_of_the_directory(service: UserService, status: bytes) -> None:
    service.broken = status
    with pytest.raises(DirectoryUnavailableError):
        await find(http(service), "1", "2")


async def test_a_service_that_hangs_is_not_waited_for(service: UserService) -> None:
    service.seconds = 5.0
    with pytest.raises(DirectoryUnavailableError):
        await find(http(service, timeout=0.1), "1")


async def test_no_more_are_asked_for_at_once_than_is_allowed(service: UserService) -> None:
    service.seconds = 0.01
    await find(http(service, concurrency=3), *map(str, range(12)))
    assert service.most_at_once == 3


async def test_a_person_is_asked_for_once(service: UserService) -> None:
    service.people = {name: {} for name in "abc"}
    service.seconds = 0.05
    async with open_directory(http(service)) as directory:
        assert directory is not None
        await asyncio.gather(directory.find("ab"), directory.find("bc"))
        await directory.find("abc")

    assert service.asked == {"a": 1, "b": 1, "c": 1}


async def test_a_missing_person_and_a_failure_are_asked_for_again(service: UserService) -> None:
    async def ask(directory: Directory) -> Person | None:
        return (await directory.find(["a"]))["a"]

    async with open_directory(http(service)) as directory:
        assert directory is not None
        assert await ask(directory) is None
        service.broken = b"503"
        with pytest.raises(DirectoryUnavailableError):
            await ask(directory)
        service.broken, service.people["a"] = None, {"preferred_language": "tr"}
        assert await ask(directory) == Person(None, "tr")


async def test_a_query_finds_all_at_once(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("create table public.members (id text, mail text, lang text)")
    await connection.execute(
        "insert into public.members values ('1', 'ada@example.com', 'de'), ('2', null, null)"
    )
    await connection.close()
    columns = "id as user_id, mail as email, lang as preferred_language"
    query = f"select {columns} from public.members where id = any($1)"  # noqa: S608 - a table of this test
    settings = DirectorySettings(kind="sql", url=database_url, query=query)

    assert await find(settings, "1", "2", "3") == {
        "1": Person("ada@example.com", "de"),
        "2": Person(None, None),
        "3": None,
    }
    other = DirectorySettings(kind="sql", url=database_url, query=query.replace("mail as email, ", ""))
    with pytest.raises(DirectoryUnavailableError):
        await find(other, "1")


def test_faults_of_the_settings_are_listed() -> None:
    def faults(**environ: str) -> list[tuple[str, str]]:
        with pytest.raises(SettingsError) as caught:
            load_settings({f"TOCSIN_DIRECTORY__{name}": value for name, value in environ.items()})
        return [(fault.field.partition(" ")[0], fault.code) for fault in caught.value.faults]

    assert faults(URL="http://a") == [("directory.url", "contradiction")]
    assert faults(KIND="http", QUERY="$1") == [
        ("directory.url", "missing"),
        ("directory.query", "contradiction"),
    ]
    assert faults(KIND="sql", URL="http://a") == [
        ("directory.url", "invalid"),
        ("directory.query", "missing"),
    ]
