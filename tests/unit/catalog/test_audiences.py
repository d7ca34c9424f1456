"""The sections `audiences`, `event` and `locale_match` of a type: what they are read as, and their faults."""

from pathlib import Path

import pytest

from tests.unit.catalog.folders import folder
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.catalog.preview import preview
from tocsin.catalog.templates.jinja import RenderError
from tocsin.domain.catalog import Channel, Event

TYPE = """\
lobby.application:
  version: 2
  category: lobby
  channels: [push, email]
  audiences:
    users: [push, email]
    admins: [email]
  event:
    table: notification.LobbyApplicationEvent
    fields: [game_id]
  locale_match: closest
  payload:
    type: object
    properties: {game_id: {type: string}}
    required: [game_id]
  versions:
    1:
      payload: {type: object}
      upgrade: {default: {game_id: none}}
"""
FOLDER = "templates/lobby.application"
MAIL = {
    f"{FOLDER}/{locale}/email.{part}.j2": f"{part} {locale}"
    for locale in ("en", "pt", "pt-BR")
    for part in ("subject", "text")
}


def catalog(root: Path, old: str = "", new: str = "", **files: str) -> Path:
    assert old in TYPE
    declared = {"types/lobby.yaml": TYPE.replace(old, new) if old else TYPE}
    return folder(root, declared | MAIL | {f"{FOLDER}/{name}": text for name, text in files.items()})


def loaded(root: Path, old: str = "", new: str = "") -> Catalog:
    return load_catalog(catalog(root, old, new))


def test_audiences_and_the_event_are_read(tmp_path: Path) -> None:
    type_ = loaded(tmp_path).types["lobby.application"]

    assert type_.audiences == {"users": ("push", "email"), "admins": ("email",)}
    assert type_.event == Event(table="notification.LobbyApplicationEvent", fields=("game_id",))
    assert (type_.locale_match, type_.used_channels) == ("closest", ("push", "email"))


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        ("    admins: [email]", "    admins: [webhook]", 7, "channel"),
        ("    admins: [email]", "    admins: [push]", 7, "audience"),
        ("    admins: [email]", "    topic: [email]", 7, "audience"),
        ("    admins: [email]", "    admins: []", 7, "min_items"),
        ("    admins: [email]", "    admins: [email, email]", 7, "unique_items"),
        ("    admins: [email]", "    admins: [fax]", 7, "enum"),
        ("    admins: [email]", "    user: [email]", 7, "unknown"),
        ("channels: [push, email]", "channels: [email]", 8, "channel"),
        ("[game_id]\n  locale", "[game]\n  locale", 10, "event"),
        ("[game_id]\n  locale", "[game_id, game_id]\n  locale", 10, "unique_items"),
        ("    fields: [game_id]\n", "", 8, "missing"),
        ("notification.Lobby", "notification..Lobby", 9, "pattern"),
        ("match: closest", "match: nearly", 11, "enum"),
        ("      upgrade:", "      event: {table: T, fields: []}\n      upgrade:", 19, "event"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_fault_on_its_line(tmp_path: Path, old: str, new: str, line: int, code: str) -> None:
    faults = check(catalog(tmp_path, old, new)).faults

    assert (f"types/lobby.yaml:{line}", code) in [(fault.field, fault.code) for fault in faults]


def test_a_push_needs_texts_unless_it_is_an_event_or_nobody_gets_it(tmp_path: Path) -> None:
    event = TYPE[TYPE.index("  event:") : TYPE.index("  locale_match")]

    with_event = check(catalog(tmp_path / "event")).faults
    without = check(catalog(tmp_path / "none", event, "")).faults
    unused = catalog(tmp_path / "unused", event, "")
    (unused / "types/lobby.yaml").write_text(
        TYPE.replace(event, "").replace("users: [push, email]", "users: [email]")
    )

    assert (with_event, check(unused).faults) == ((), ())
    assert [(fault.field, fault.code) for fault in without] == [
        (f"{FOLDER}/en/push.{part}.j2:1", "missing_part") for part in ("body", "title")
    ]


def test_texts_of_an_event_are_complete_or_missing(tmp_path: Path) -> None:
    faults = check(catalog(tmp_path, **{"en/push.title.j2": "New"})).faults

    assert [(fault.field, fault.code) for fault in faults] == [
        (f"{FOLDER}/en/push.body.j2:1", "missing_part")
    ]


def test_what_has_no_texts_is_neither_rendered_nor_previewed(tmp_path: Path) -> None:
    catalog_ = loaded(tmp_path)
    type_ = catalog_.types["lobby.application"]

    assert {each.channel for each in preview(catalog_, type_, {"game_id": "7"})} == {"email"}
    with pytest.raises(RenderError, match="no texts for this channel"):
        catalog_.render(type_, "push", "en", {"game_id": "7"})


@pytest.mark.parametrize(
    ("match", "locale", "chosen"),
    [
        ("closest", "pt-BR", "pt-BR"),
        ("closest", "pt-PT", "pt"),
        ("closest", "pt_br", "pt-BR"),
        ("closest", "de", "en"),
        ("closest", None, "en"),
        ("exact", "pt-BR", "pt-BR"),
        ("exact", "pt", "pt"),
        ("exact", "pt-PT", "en"),
        ("exact", "pt-br", "en"),
        ("exact", "no locale", "en"),
        ("exact", "", "en"),
        ("exact", None, "en"),
    ],
)
@pytest.mark.parametrize("channel", ["email", "push"])
def test_the_locale_is_the_one_of_the_rendered_texts(
    tmp_path: Path, channel: Channel, match: str, locale: str | None, chosen: str
) -> None:
    catalog_ = loaded(tmp_path, "closest", match)
    type_ = catalog_.types["lobby.application"]

    assert catalog_.locale(type_, channel, locale) == chosen
    assert catalog_.render(type_, "email", locale, {"game_id": "7"}).locale == chosen
    assert catalog_.render(type_, "email", locale, {"game_id": "7"}).parts["text"] == f"text {chosen}"


def test_the_check_reports_the_audiences(tmp_path: Path) -> None:
    (type_,) = check(catalog(tmp_path)).types

    assert type_.audiences == {"users": ("push", "email"), "admins": ("email",)}
