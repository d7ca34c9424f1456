import asyncio
import traceback
from collections.abc import AsyncIterator

import pytest
import structlog

from tests.ingress.directory.services import UserService, running_service
from tests.waiting import found
from tocsin.domain.errors import SettingsError
from tocsin.ingress.directory.lookup import Directory, DirectoryUnavailableError, Person
from tocsin.ingress.directory.open import open_directory
from tocsin.ingress.directory.settings import DirectorySettings, directory_settings_faults
from tocsin.settings.load import load_settings


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


async def test_a_user_id_never_leaves_its_path(service: UserService) -> None:
    service.people["..."] = {}
    assert await find(http(service), ".", "..", "...") == {".": None, "..": None, "...": Person()}
    assert service.asked == {"...": 1}


@pytest.mark.parametrize("status", [b"400", b"410", b"414", b"422", b"499"])
async def test_an_id_that_the_service_refuses_is_of_nobody(service: UserService, status: bytes) -> None:
    service.people["ada"] = {}
    service.answers = {"odd": (status, b"no uuid: odd"), "odder": (status, b"no uuid: odder")}
    with structlog.testing.capture_logs() as logs:
        people = await find(http(service), "ada", "odd", "odder")

    assert people == {"ada": Person(), "odd": None, "odder": None}
    assert logs == [
        {"event": "directory lookups refused", "log_level": "warning", "status": int(status), "people": 2}
    ]


async def test_an_answer_without_end_is_a_failure(service: UserService) -> None:
    service.answers["ada"] = b"200", b'{"email": "' + b"a" * 1_000_000 + b'"}'
    with pytest.raises(DirectoryUnavailableError, match="more than 65,536 bytes"):
        await find(http(service), "ada")


@pytest.mark.parametrize(
    "body", [b'{"name": "Andr\xe9", "email": "a@b.c"}', b'{"a":' * 10_000, b"[]", b'{"email": "a@b.c']
)
async def test_a_body_that_is_no_json_object_is_a_failure(service: UserService, body: bytes) -> None:
    service.answers["ada"] = b"200", body
    with pytest.raises(DirectoryUnavailableError) as caught:
        await find(http(service), "ada")
    assert (str(caught.value), caught.value.__cause__) == (
        "the directory answered with something else than a JSON object",
        None,
    )


@pytest.mark.parametrize("url", ["http://a b", "https://u:secret@h:99999", "http://a<b"])
async def test_an_address_that_is_none_is_a_failure(url: str) -> None:
    with pytest.raises(DirectoryUnavailableError, match="the directory: ") as caught:
        await find(DirectorySettings(kind="http", url=url), "ada")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


async def test_a_few_failures_do_not_hold_up_many(service: UserService) -> None:
    user_ids = list(map(str, range(500)))
    service.people = {each: {} for each in user_ids}
    service.fails_every = 100
    async with open_directory(http(service)) as directory:
        assert directory is not None
        with pytest.raises(DirectoryUnavailableError) as caught:
            await directory.find(user_ids)
        assert len(caught.value.found) == 495
        service.fails_every = 0
        assert len(await directory.find(user_ids)) == 500

    assert service.asked.total() == 505


async def test_a_service_that_is_down_is_asked_a_few_times(service: UserService) -> None:
    service.broken = b"503"
    with pytest.raises(DirectoryUnavailableError):
        await find(http(service, concurrency=3), *map(str, range(100)))
    assert service.asked.total() == 3


async def test_many_people_make_few_tasks(service: UserService) -> None:
    async def has_begun() -> bool:
        return service.at_once > 0

    service.seconds = 0.01
    before = len(asyncio.all_tasks())
    async with open_directory(http(service, concurrency=3)) as directory:
        assert directory is not None
        looking = asyncio.ensure_future(directory.find(list(map(str, range(5_000)))))
        await found(has_begun)
        assert len(asyncio.all_tasks()) < before + 20
        looking.cancel()
        await asyncio.wait([looking])


@pytest.mark.parametrize("status", [b"500", b"404", b"401", b"403", b"405", b"408", b"429", b"301", b"200"])
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


async def test_one_who_is_cancelled_does_not_cancel_the_look_up_of_another(service: UserService) -> None:
    service.people["a"], service.seconds = {}, 0.05
    async with open_directory(http(service)) as directory:
        assert directory is not None
        first = asyncio.ensure_future(directory.find("a"))
        second = asyncio.ensure_future(directory.find("a"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == {"a": Person()}

    assert service.asked == {"a": 1}


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
    for kind, url in (
        ("http", "http://"),
        ("http", "http://a b"),
        ("http", "http://[::1"),
        ("http", "https://u:secret@h:99999"),
        ("http", "https://h:0"),
        ("http", "https://h/?user="),
        ("sql", "postgresql://u:secret/word@h/db"),
        ("sql", "postgresql://u:secret@h:99999/db"),
        ("sql", "postgresql://u:secret@h:1,i:x/db"),
    ):
        assert faults(KIND=kind, URL=url, QUERY="$1" if kind == "sql" else "") == [
            ("directory.url", "invalid")
        ]


def test_addresses_of_all_kinds_are_taken() -> None:
    for kind, url in (
        ("http", "https://users.internal.example"),
        ("http", "http://u:p@[::1]:8080/base/"),
        ("sql", "postgresql://u:p@a.example:5432,b.example/db"),
        ("sql", "postgresql:///db?host=/tmp"),
    ):
        query = "$1" if kind == "sql" else ""
        settings = DirectorySettings(kind=kind, url=url, query=query)  # type: ignore[arg-type]
        assert not list(directory_settings_faults(settings))
