import traceback
from collections.abc import AsyncIterator

import asyncpg
import pytest
import structlog

from tocsin.ingress.directory.lookup import DirectoryUnavailableError, Person
from tocsin.ingress.directory.settings import DirectorySettings
from tocsin.ingress.directory.sql import SqlDirectory

ADA = "aaaaaaaa-0000-0000-0000-00000000000a"
BOB = "bbbbbbbb-0000-0000-0000-00000000000b"
COLUMNS = "mail as email, lang as preferred_language"
BY_TEXT = f"select id::text as user_id, {COLUMNS} from public.members where id::text = any($1)"  # noqa: S608 - a table of this test
BY_UUID = f"select id as user_id, {COLUMNS} from public.members where id = any($1)"  # noqa: S608
AS_ASKED = f"""
select asked as user_id, {COLUMNS}
from unnest($1::text[]) as asked join public.members on members.id = asked::uuid
"""  # noqa: S608


@pytest.fixture
async def members(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    await connection.execute("create table public.members (id uuid primary key, mail text, lang text)")
    await connection.execute(
        "insert into public.members values ($1, 'ada@example.com', 'de'), ($2, null, null)", ADA, BOB
    )
    yield connection
    await connection.close()


async def find(url: str, query: str, *user_ids: str) -> dict[str, Person | None]:
    directory = SqlDirectory(DirectorySettings(kind="sql", url=url, query=query, timeout=5))
    try:
        return dict(await directory.find(user_ids))
    finally:
        await directory.aclose()


@pytest.mark.usefixtures("members")
async def test_a_query_finds_all_at_once(database_url: str) -> None:
    assert await find(database_url, BY_TEXT, ADA, BOB, "3") == {
        ADA: Person("ada@example.com", "de"),
        BOB: Person(None, None),
        "3": None,
    }
    with pytest.raises(DirectoryUnavailableError):
        await find(database_url, BY_TEXT.replace("mail as email, ", ""), ADA)


@pytest.mark.usefixtures("members")
@pytest.mark.parametrize("query", [BY_UUID, AS_ASKED])
async def test_ids_that_do_not_fit_the_column_are_of_nobody(database_url: str, query: str) -> None:
    odd = [f"odd{number}" for number in range(3)]
    with structlog.testing.capture_logs() as logs:
        people = await find(database_url, query, odd[0], ADA, odd[1], BOB, odd[2])

    assert people == {ADA: Person("ada@example.com", "de"), BOB: Person()} | dict.fromkeys(odd)
    assert logs == [{"event": "directory lookups refused", "log_level": "warning", "people": 3}]


@pytest.mark.usefixtures("members")
async def test_an_id_is_found_however_it_is_written(database_url: str) -> None:
    assert await find(database_url, AS_ASKED, ADA.upper()) == {ADA.upper(): Person("ada@example.com", "de")}


@pytest.mark.usefixtures("members")
async def test_a_query_that_is_wrong_itself_is_a_failure(database_url: str) -> None:
    with pytest.raises(DirectoryUnavailableError, match="DivisionByZeroError"):
        await find(database_url, BY_TEXT + " and 1 / (select 0) = 1", ADA, BOB)


async def test_a_connection_that_failed_is_replaced(database_url: str, members: asyncpg.Connection) -> None:
    query = """
    select id::text as user_id, pg_backend_pid() || '@example.com' as email, null as preferred_language
    from public.members
    """
    directory = SqlDirectory(
        DirectorySettings(kind="sql", url=database_url, query=f"{query} where id = any($1)", timeout=0.5)
    )
    first = (await directory.find([ADA]))[ADA]
    async with members.transaction():
        await members.execute("lock table public.members in access exclusive mode")
        with pytest.raises(DirectoryUnavailableError, match="TimeoutError"):
            await directory.find([ADA])
    second = (await directory.find([ADA]))[ADA]
    await directory.aclose()

    assert first is not None
    assert second is not None
    assert first.email != second.email


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:sec/ret@127.0.0.1/db", "postgresql://u:p@127.0.0.1:99999/db", "postgresql://h:sec/"],
)
async def test_no_error_quotes_the_address(url: str) -> None:
    with pytest.raises(DirectoryUnavailableError) as caught:
        await find(url, BY_UUID, ADA)
    shown = "".join(traceback.format_exception(caught.value))
    assert "ret@" not in shown
    assert "'sec'" not in shown
    assert caught.value.__cause__ is None
