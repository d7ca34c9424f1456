import contextlib
from pathlib import Path

import asyncpg
import pytest

from tests.edges.command_line import Ran, run
from tests.ingress.outbox.outboxes import Shop, intent
from tocsin.ingress.outbox.install import install, install_sql


@pytest.fixture
def folder(tmp_path: Path, shop_url: str) -> Path:
    (tmp_path / "tocsin.toml").write_text(f'[outboxes.shop]\nurl = "{shop_url}"\n')
    return tmp_path


def _outbox(folder: Path, *arguments: str) -> Ran:
    return run(["outbox", *arguments], {}, folder)


async def test_an_outbox_is_installed_checked_and_looked_at(bare_shop: Shop, folder: Path) -> None:
    before = _outbox(folder, "check", "shop")
    installed = _outbox(folder, "install", "--url", bare_shop.url)
    again = _outbox(folder, "install", "shop", "--json")
    after = _outbox(folder, "check")
    await bare_shop.publish()
    await bare_shop.publish(intent("grace"))
    await bare_shop.connection.execute("update tocsin_outbox set failed_attempts = 5 where id = 2")
    status = _outbox(folder, "status", "--json")

    assert before.code == 1
    assert "shop cannot be relayed" in before.said
    assert "`tocsin outbox install` creates it" in before.said
    assert installed.code == 0
    assert "select public.tocsin_publish" in installed.said
    assert again.json == {"table": "public.tocsin_outbox", "function": "public.tocsin_publish"}
    assert (after.code, after.said) == (0, "shop can be relayed.")
    found = status.json["shop"]
    assert (found["waiting"], found["failed"], found["alarming"]) == (2, 1, 1)
    assert found["oldest"] is not None
    assert "shop" in _outbox(folder, "status").said


async def test_the_sql_can_be_printed_and_run_by_hand(bare_shop: Shop, folder: Path) -> None:
    await bare_shop.connection.execute("create schema sales")
    printed = _outbox(folder, "sql", "--schema", "sales", "--table", "told")

    await bare_shop.connection.execute(printed.out)

    assert printed.out == install_sql("sales", "told")
    checked = _outbox(
        folder, "check", "--url", bare_shop.url, "--schema", "sales", "--table", "told", "--json"
    )
    assert checked.json == {"sales.told": {"faults": [], "hints": []}}


async def test_one_that_does_not_answer_keeps_no_other_from_being_checked(
    bare_shop: Shop, folder: Path
) -> None:
    await install(bare_shop.connection, "public", "tocsin_outbox")
    away = "postgresql://app:hunter2@/x?host=/no/such/folder"
    with (folder / "tocsin.toml").open("a") as settings:
        settings.write(f'[outboxes.away]\nurl = "{away}"\n')

    checked = _outbox(folder, "check")

    assert checked.code == 1
    assert "away cannot be relayed" in checked.said
    assert "shop can be relayed." in checked.said
    assert "hunter2" not in checked.said
    assert bare_shop.url not in checked.said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["status", "store"], "No outbox store is set; those that are: shop."),
        (["install", "shop", "--url", "postgresql://x"], "not both"),
        (["install", "--url", "postgresql:///x?host=/no/such/folder"], "does not answer"),
        (["sql", "--table", "Outbox"], "'Outbox' must be lower-case"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(folder: Path, arguments: list[str], complaint: str) -> None:
    ran = _outbox(folder, *arguments)

    assert ran.code == 2
    assert complaint in ran.said


async def test_a_role_that_may_not_install_is_told_what_it_needs(bare_shop: Shop, folder: Path) -> None:
    # The session is the owner's by name and has given up its rights.
    with contextlib.suppress(asyncpg.DuplicateObjectError):
        await bare_shop.connection.execute("create role guest")
    separator = "&" if "?" in bare_shop.url else "?"

    ran = _outbox(folder, "install", "--url", f"{bare_shop.url}{separator}role=guest")

    assert ran.code == 2
    assert "needs CREATE on schema public" in ran.said
