"""Links for leaving: only what was signed is read, and settings that cannot work are named."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.catalog import Channel
from tocsin.domain.people.unsubscribe import (
    LONGEST_BASE_URL,
    LONGEST_TOKEN,
    UnsubscribeSettings,
    Unsubscription,
    read,
    sign,
    unsubscribe_headers,
    unsubscribe_settings_faults,
    unsubscribe_url,
)

SECRET = "a secret of at least thirty-two bytes"
TOKEN = sign(SECRET, "ada", "orders", "email")
USER_IDS = st.text(
    st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=["Cs"]),
    min_size=1,
    max_size=128,
)
CHANNELS: list[Channel] = ["push", "email", "inbox", "webhook"]


@given(USER_IDS, st.from_regex(r"[a-z][a-z0-9_-]{0,63}", fullmatch=True), st.sampled_from(CHANNELS))
def test_what_was_signed_is_read(user_id: str, category: str, channel: Channel) -> None:
    token = sign(SECRET, user_id, category, channel)

    assert read(SECRET, token) == Unsubscription(user_id, category, channel)
    assert read(SECRET + "!", token) is None
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


@given(st.integers(0, len(TOKEN) - 1), st.characters(max_codepoint=0x7F))
def test_a_token_with_any_character_changed_is_refused(place: int, character: str) -> None:
    changed = TOKEN[:place] + character + TOKEN[place + 1 :]

    assert (read(SECRET, changed) is not None) == (changed == TOKEN)


@given(st.text(max_size=200))
def test_anything_else_is_refused_and_never_an_error(text: str) -> None:
    assert read(SECRET, text) is None
    assert read(SECRET, f"1.{text}.{text}") is None


@pytest.mark.parametrize(
    "token",
    [
        TOKEN[:-1],
        TOKEN + "A",
        TOKEN + "=",
        TOKEN.replace("1.", "2.", 1),
        TOKEN.rpartition(".")[0],
        TOKEN + "." + TOKEN,
        "1.." + TOKEN.rpartition(".")[2],
        TOKEN[:5] + "!" + TOKEN[5:],
        TOKEN + "A" * LONGEST_TOKEN,
        "1." + urlsafe_b64encode(b'["eve","orders","email"]').decode() + "." + TOKEN.rpartition(".")[2],
    ],
)
def test_a_forged_or_mutilated_token_is_refused(token: str) -> None:
    assert read(SECRET, token) is None


def test_the_longest_link_fits_on_a_line_of_a_mail() -> None:
    base = "https://" + "n" * (LONGEST_BASE_URL - 8)
    settings = UnsubscribeSettings(secret=SECRET, base_url=base)

    headers = unsubscribe_headers(settings, "\U0001f514" * 128, "c" * 64)

    assert len("List-Unsubscribe: " + headers["List-Unsubscribe"]) <= 998
    token = headers["List-Unsubscribe"].rpartition("/")[2].removesuffix(">")
    assert read(SECRET, token) == Unsubscription("\U0001f514" * 128, "c" * 64, "email")


def test_a_mail_offers_the_link_as_rfc_8058_asks() -> None:
    settings = UnsubscribeSettings(secret=SECRET, base_url="https://notify.example.com/tocsin/")

    headers = unsubscribe_headers(settings, "ada", "orders")

    assert headers == {
        "List-Unsubscribe": f"<https://notify.example.com/tocsin/v1/unsubscribe/{TOKEN}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def test_without_settings_there_is_no_link() -> None:
    assert unsubscribe_headers(UnsubscribeSettings(), "ada", "orders") == {}
    assert unsubscribe_url(UnsubscribeSettings(secret=SECRET), "ada", "orders") is None


def test_the_secret_is_not_shown() -> None:
    settings = UnsubscribeSettings(secret=SECRET, base_url="https://notify.example.com")

    assert SECRET not in f"{settings} {settings!r}"
    assert "notify.example.com" in repr(settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (UnsubscribeSettings(), {}),
        (UnsubscribeSettings(secret=SECRET, base_url="https://notify.example.com"), {}),
        (UnsubscribeSettings(secret=SECRET, base_url="http://127.0.0.1:8470"), {}),
        (UnsubscribeSettings(secret=SECRET), {"unsubscribe.base_url": "missing"}),
        (UnsubscribeSettings(base_url="https://n.example.com"), {"unsubscribe.secret": "missing"}),
        (
            UnsubscribeSettings(secret="short", base_url="http://n.example.com"),
            {"unsubscribe.secret": "too_short", "unsubscribe.base_url": "invalid"},
        ),
        *(
            (UnsubscribeSettings(secret=SECRET, base_url=base_url), {"unsubscribe.base_url": "invalid"})
            for base_url in (
                "",
                "notify.example.com",
                "https://",
                "https://n.example.com/?a=1",
                "https://n.example.com/a b",
                "https://n.example.com/#top",
                "https://n.example.com>",
                "https://n.example.com\r\nBcc: eve@example.com",
                "https://[::1",
                "https://bücher.example",
                "https://" + "n" * 120,
                "ftp://n.example.com",
            )
        ),
    ],
)
def test_settings_that_cannot_work_are_named(settings: UnsubscribeSettings, expected: dict[str, str]) -> None:
    assert {fault.field: fault.code for fault in unsubscribe_settings_faults(settings)} == expected
