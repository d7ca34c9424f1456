from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.people.locale import fallback_chain, normalize


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("tr", "tr"),
        ("TR", "tr"),
        ("tr-TR", "tr-TR"),
        ("tr_tr", "tr-TR"),
        ("tr_TR.UTF-8", "tr-TR"),
        ("de_DE@euro", "de-DE"),
        (" fa-IR ", "fa-IR"),
        ("zh-hant-tw", "zh-Hant-TW"),
        ("zh_Hans", "zh-Hans"),
        ("es-419", "es-419"),
        ("sl-rozaj-biske", "sl-rozaj-biske"),
        ("de-1996", "de-1996"),
        ("zh-yue-HK", "zh-yue-HK"),
        ("en-US-u-ca-gregory", "en-US"),
        ("ar-x-private", "ar"),
        ("fil-PH", "fil-PH"),
        ("iw-IL", "he-IL"),
        ("in", "id"),
        ("ji", "yi"),
    ],
)
def test_tags_are_written_the_usual_way(tag: str, expected: str) -> None:
    assert normalize(tag) == expected


@pytest.mark.parametrize(
    "tag",
    [
        "",
        "x",
        "C",
        "POSIX",
        "english",
        "tr-",
        "-tr",
        "tr--TR",
        "../../etc",
        "t\u00fc",
        "12",
        "a" * 500,
        "\x00",
    ],
)
def test_what_is_no_locale_has_no_tag(tag: str) -> None:
    assert normalize(tag) is None


@pytest.mark.parametrize(
    ("tag", "default", "expected"),
    [
        ("tr-TR", "en", ("tr-TR", "tr", "en")),
        ("tr_TR", "en", ("tr-TR", "tr", "en")),
        ("zh-Hant-TW", "en", ("zh-Hant-TW", "zh-Hant", "zh", "en")),
        ("sl-rozaj-biske", "en", ("sl-rozaj-biske", "sl-rozaj", "sl", "en")),
        ("en", "en", ("en",)),
        ("en-GB", "en", ("en-GB", "en")),
        ("pt", "pt-BR", ("pt", "pt-BR")),
        ("nonsense!", "en", ("en",)),
        ("", "tr", ("tr",)),
        (None, "tr", ("tr",)),
    ],
)
def test_the_closest_locale_is_tried_first(tag: str | None, default: str, expected: tuple[str, ...]) -> None:
    assert fallback_chain(tag, default) == expected


@given(st.one_of(st.text(), st.from_regex(r"[a-zA-Z]{2,3}([-_][a-zA-Z0-9]{1,8}){0,4}", fullmatch=True)))
def test_any_text_gives_a_chain_without_repeats_that_ends_in_the_default(tag: str) -> None:
    chain = fallback_chain(tag, "en")
    assert "en" in chain
    assert len(set(chain)) == len(chain)
    assert [normalize(candidate) for candidate in chain] == list(chain)
    assert all(closer.startswith(f"{wider}-") for closer, wider in pairwise(chain[:-1]))


@given(st.text())
def test_a_normal_tag_stays_as_it_is(tag: str) -> None:
    normal = normalize(tag)
    assert normal is None or normalize(normal) == normal
