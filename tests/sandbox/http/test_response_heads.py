"""Heads that are encoded once say what those encoded each time would."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import hpack
import pytest

from tocsin.sandbox.http import response_heads
from tocsin.sandbox.http.response_heads import ResponseHeads
from tocsin.sandbox.responses import JSON, Response

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC).timestamp()


def _fields(block: bytes) -> dict[str, str]:
    return {str(name): str(value) for name, value in hpack.Decoder().decode(block)}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOON]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


def test_a_head_has_the_date_of_its_second(clock: list[float]) -> None:
    heads = ResponseHeads()
    for later in (0.0, 0.9, 1.0, -5.0):
        clock[0] = NOON + later
        for date in (_fields(heads.block(Response("OK", 200, b"{}")))["date"], _date_of_text(heads)):
            assert parsedate_to_datetime(date).timestamp() == int(NOON + later)


def _date_of_text(heads: ResponseHeads) -> str:
    lines = heads.text(Response("OK", 200, b"{}"), keeps_alive=True).decode().split("\r\n")
    return next(line for line in lines if line.startswith("date: ")).removeprefix("date: ")


@pytest.mark.usefixtures("clock")
def test_answers_that_differ_have_heads_of_their_own() -> None:
    heads = ResponseHeads()
    answers = [
        Response("OK", 200, b"{}"),
        Response("OK", 201, b"{}"),
        Response("OK", 200, b"{ }"),
        Response("OK", 200, b"{}", (JSON, ("apns-id", "1"))),
        Response("OK", 204, b""),
    ]
    for _ in range(2):
        for answer in answers:
            fields = _fields(heads.block(answer))
            assert fields.pop("date")
            length = {} if answer.status == 204 else {"content-length": str(len(answer.body))}
            assert fields == {":status": str(answer.status), **dict(answer.headers), **length}
        assert _fields(heads.block(answers[0], 64))["content-length"] == "64"


@pytest.mark.usefixtures("clock")
def test_ids_in_heads_do_not_fill_memory() -> None:
    heads = ResponseHeads()
    many = response_heads.MOST_KNOWN + 10
    for number in range(many):
        block = heads.block(Response("OK", 200, b"", (("apns-id", str(number)),)))
        assert _fields(block)["apns-id"] == str(number)
    assert len(heads._blocks) == response_heads.MOST_KNOWN
