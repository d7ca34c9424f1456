"""The archive, read back by the queries of the guide."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.aws.archive.conftest import Topic

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "archive.md"
ODD = [
    "no JSON\x7f",
    "[]",
    '{"a":' + "[" * 1_000 + "]" * 1_000 + "}",
    '{"a":1e999}',
    '{"n":' + "9" * 60 + ',"a":1,"a":"x"}',
    '{"":1,\n "\\u0000":"\\u0000"}',
    '{"event_id":5,"recipients":"none"}',
]


def queries(folder: Path) -> list[str]:
    """Return the queries of the guide, for a folder."""
    found = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [query.replace("/var/lib/tocsin-archive", str(folder)) for query in found]


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    answer = connection.sql(query)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


@pytest.fixture
async def archived(topic: Topic) -> Topic:
    topic.publish_all(range(40))
    for text in ODD:
        topic.publish(text)
    await topic.drained(roll_messages=15)
    # As if a message had been handed out twice.
    (first, *_) = topic.files()
    first.with_name(f"again-{first.name}").write_bytes(first.read_bytes())
    return topic


def test_the_queries_of_the_guide_answer(archived: Topic) -> None:
    quick, view, by_type, of_one = queries(archived.folder)
    with duckdb.connect() as connection:
        (counted,) = rows(connection, quick)
        connection.execute(view)
        types = rows(connection, by_type)
        events = rows(connection, of_one)
        everything = rows(connection, "select * from archive")

    assert counted["messages"] > counted["distinct_messages"] == 40 + len(ODD)
    assert len(everything) == 40 + len(ODD)
    assert {row["text"] for row in everything} >= {ODD[0], ODD[1], ODD[2], ODD[3]}
    assert {row["event_type"]: row["messages"] for row in types}["comment.added"] == 40
    assert {row["event_id"] for row in events} == {f"e-{number}" for number in range(3, 40, 7)}
    day, hour = {(str(row["day"]), row["hour"]) for row in everything if row["day"]}.pop()
    assert (archived.folder / f"day={day}" / f"hour={hour}").is_dir()
