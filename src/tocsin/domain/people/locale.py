"""Locale tags, and the order in which translations are tried."""

import re
from functools import lru_cache

# BCP 47 without grandfathered tags; extensions and private use do not choose a translation.
_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})"
    r"(?P<extended>(?:-[a-z]{3}){0,3})"
    r"(?:-(?P<script>[a-z]{4}))?"
    r"(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?P<variants>(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*)"
    r"(?:-[a-z0-9]-.+)?",
    re.ASCII | re.IGNORECASE,
)
# Java and older Android still use these for Hebrew, Indonesian and Yiddish.
_FORMER_LANGUAGES = {"iw": "he", "in": "id", "ji": "yi"}
_LONGEST_TAG = 64
NO_LOCALE = "must be a language tag such as en, tr-TR or zh-Hant-TW"


def normalize(tag: str) -> str | None:
    """Return a tag in its usual form (`zh_hant_tw` is `zh-Hant-TW`), or None if it is not a locale."""
    if len(tag) > _LONGEST_TAG:
        return None
    # POSIX appends an encoding or a modifier to the tag: tr_TR.UTF-8, de_DE@euro.
    plain = re.split(r"[.@]", tag.strip(), maxsplit=1)[0].replace("_", "-")
    found = _TAG.fullmatch(plain)
    if found is None:
        return None
    language = found["language"].lower()
    return "".join(
        (
            _FORMER_LANGUAGES.get(language, language),
            found["extended"].lower(),
            f"-{found['script'].title()}" if found["script"] else "",
            f"-{found['region'].upper()}" if found["region"] else "",
            found["variants"].lower(),
        )
    )


@lru_cache(maxsize=4096)
def fallback_chain(tag: str | None, default: str) -> tuple[str, ...]:
    """List the locales to try, closest first; the default is the last."""
    normal = normalize(tag) if tag else None
    chain = []
    while normal:
        chain.append(normal)
        normal = normal.rpartition("-")[0]
    return (*chain, default) if default not in chain else tuple(chain)
