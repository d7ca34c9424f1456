"""What is logged of an exception tells where it happened, and nothing of what was at hand there."""

import json
import logging
from collections.abc import Iterator

import asyncpg
import pytest
import structlog

from tocsin.logs import LineBudget, LogSettings, configure_logs, sent_lines

TOKEN = "ExponentPushToken[7c9f]"
SECRET = "whsec_bm90IGEgc2VjcmV0"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    configured = structlog.get_config()
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**configured)
    sent_lines.per_second = LogSettings().sent_per_second


async def sign_and_send(token: str, secret: str) -> None:
    headers = {"authorization": f"Bearer {secret}", "to": token}
    raise RuntimeError(f"{len(headers)} headers could not be sent")


async def logged(form: str, capsys: pytest.CaptureFixture[str], *, by_library: bool) -> str:
    configure_logs(LogSettings(format="json" if form == "json" else "console"))
    log = logging.getLogger("library") if by_library else structlog.stdlib.get_logger("provider")
    try:
        await sign_and_send(TOKEN, SECRET)
    except RuntimeError:
        log.exception("provider failed")
    return capsys.readouterr().err


@pytest.mark.parametrize("by_library", [False, True])
@pytest.mark.parametrize("form", ["json", "console"])
async def test_a_traceback_holds_neither_token_nor_secret(
    form: str, capsys: pytest.CaptureFixture[str], *, by_library: bool
) -> None:
    said = await logged(form, capsys, by_library=by_library)

    assert "provider failed" in said
    assert "sign_and_send" in said
    assert "2 headers could not be sent" in said
    assert TOKEN not in said
    assert SECRET not in said


async def test_json_is_one_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (await logged("json", capsys, by_library=False)).splitlines()

    (raised,) = json.loads(line)["exception"]
    assert raised["exc_type"] == "RuntimeError"
    assert [frame["name"] for frame in raised["frames"]] == ["logged", "sign_and_send"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_postgres_says_of_the_values_of_a_row_is_not_logged(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs(LogSettings(format="json" if form == "json" else "console"))
    refused = asyncpg.CheckViolationError("new row violates a constraint")
    refused.detail = f"Failing row contains ({TOKEN})."
    try:
        try:
            raise refused
        except asyncpg.PostgresError as error:
            raise RuntimeError("not settled") from error
    except RuntimeError:
        structlog.stdlib.get_logger("settle").exception("settlement refused")

    told = capsys.readouterr().err
    assert "violates a constraint" in told
    assert TOKEN not in told


def test_a_budget_leaves_lines_out_until_the_next_second_and_counts_them() -> None:
    now = 100.0
    budget = LineBudget(2, lambda: now)

    assert [budget.take() for _ in range(5)] == [True, True, False, False, False]
    now += 1
    assert budget.take()
    assert budget.left_out() == 3
    assert budget.left_out() is None


def test_lines_taken_together_are_counted_like_single_ones() -> None:
    budget = LineBudget(3, lambda: 100.0)

    assert [budget.take_up_to(count) for count in (0, 2, 5, 4)] == [0, 2, 1, 0]
    assert budget.left_out() == 8


def test_the_setting_is_the_budget_of_lines() -> None:
    configure_logs(LogSettings(sent_per_second=0))

    assert not sent_lines.take()
