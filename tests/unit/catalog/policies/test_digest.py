"""A type that collects: what its texts may speak of is known and proven."""

from datetime import timedelta
from pathlib import Path

import pytest

from tocsin.catalog.check import check
from tocsin.catalog.load import load_catalog
from tocsin.domain.catalog import Digest
from tocsin.domain.digest import digest_group, digest_payload

TYPE = """\
comment:
  version: 2
  category: comments
  channels: [push]
  payload:
    type: object
    properties:
      author: {type: string}
      post: {type: string}
      mood: {type: string}
    required: [author, post]
  policies:
    digest: {window: 1h, by: post}
  versions:
    1:
      payload:
        type: object
        properties:
          who: {type: string}
        required: [who]
"""
DECLARED = "types/comment.yaml"
TITLE = "templates/comment/en/push.title.j2"
BODY = "templates/comment/en/push.body.j2"
OLD_TITLE = "templates/comment@1/en/push.title.j2"
OLD_BODY = "templates/comment@1/en/push.body.j2"
UPGRADES = TYPE.replace(
    "        required: [who]\n",
    "        required: [who]\n      upgrade: {rename: {who: author}, default: {post: none}}\n",
)
GOOD = {
    DECLARED: UPGRADES,
    TITLE: "{{ count | plural(one='A comment', other=(count | number) ~ ' comments') }} on {{ post }}",
    BODY: "{{ items | map(attribute='author') | join(', ') }}, last {{ author }}",
}


def folder(root: Path, changes: dict[str, str]) -> Path:
    for name, text in (GOOD | changes).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def found(root: Path) -> list[tuple[str, str]]:
    return [(fault.field, fault.code) for fault in check(root).faults]


def test_a_type_may_collect_and_speak_of_all_it_collected(tmp_path: Path) -> None:
    catalog = load_catalog(folder(tmp_path, {}))
    type_ = catalog.types["comment"]
    assert type_.policies.digest == Digest(window=timedelta(hours=1), by="post")

    told = digest_payload([{"author": name, "post": "P"} for name in ("Ada", "Bob", "Eve")])
    content = catalog.render(type_, "push", "en", told)
    assert content.parts == {"title": "3 comments on P", "body": "Ada, Bob, Eve, last Eve"}


FAULTS = [
    pytest.param({BODY: "{{ author }} {{ thing }}"}, [(f"{BODY}:1", "unknown_variable")], id="unknown name"),
    pytest.param({BODY: "{{ items }}"}, [(f"{BODY}:1", "not_text")], id="the list as text"),
    pytest.param({BODY: "{{ items[1].author }}"}, [(f"{BODY}:1", "undefined")], id="only one item"),
    pytest.param(
        {BODY: "{% for each in items %}{{ each.mood }}{% endfor %}"},
        [(f"{BODY}:1", "undefined")],
        id="optional field of an item",
    ),
    pytest.param(
        {BODY: "{% if count == 1 %}{{ author }}{% endif %}"}, [(f"{BODY}:1", "blank")], id="blank for three"
    ),
    pytest.param(
        {BODY: "{% if count > 1 %}{{ count }}{% endif %}"}, [(f"{BODY}:1", "blank")], id="blank for one"
    ),
    pytest.param(
        {DECLARED: UPGRADES.replace("1h", "soon")}, [(f"{DECLARED}:13", "digest")], id="no duration"
    ),
    pytest.param({DECLARED: UPGRADES.replace("1h", "0s")}, [(f"{DECLARED}:13", "digest")], id="empty window"),
    pytest.param(
        {DECLARED: UPGRADES.replace("1h", "31d")}, [(f"{DECLARED}:13", "digest")], id="endless window"
    ),
    pytest.param(
        {DECLARED: UPGRADES.replace("by: post", "by: thing")}, [(f"{DECLARED}:13", "digest")], id="by what"
    ),
    pytest.param(
        {DECLARED: UPGRADES.replace("  policies:\n", "  policies:\n    ordered: true\n")},
        [(f"{DECLARED}:14", "digest")],
        id="ordered",
    ),
    pytest.param(
        {DECLARED: UPGRADES.replace("mood:", "count:")},
        [(f"{DECLARED}:10", "reserved")],
        id="a field with a name that is taken",
    ),
    pytest.param(
        {DECLARED: TYPE, OLD_TITLE: "-", OLD_BODY: "{{ who }}"},
        [(f"{DECLARED}:13", "digest")],
        id="a version that stays lacks the field",
    ),
]


@pytest.mark.parametrize(("changes", "faults"), FAULTS)
def test_what_could_fail_for_a_digest_is_found(
    tmp_path: Path, changes: dict[str, str], faults: list[tuple[str, str]]
) -> None:
    assert found(folder(tmp_path, changes)) == faults


def test_names_of_a_digest_are_unknown_elsewhere(tmp_path: Path) -> None:
    plain = UPGRADES.replace("  policies:\n    digest: {window: 1h, by: post}\n", "")
    files = folder(tmp_path, {DECLARED: plain, TITLE: "-", BODY: "{{ count }}"})
    assert found(files) == [(f"{BODY}:1", "unknown_variable")]


def test_what_it_is_digest_group_is_short_and_tells_values_and_versions_apart(tmp_path: Path) -> None:
    catalog = load_catalog(folder(tmp_path, {}))
    type_ = catalog.types["comment"]
    long = "x" * 50_000

    names = [
        digest_group(type_, {"author": "Ada", "post": post})
        for post in ("1", "2", "null", long, f"{long}x", 1, None)
    ]

    assert len({*names}) == len(names)
    assert all(name is not None and len(name) < 100 for name in names)
    assert digest_group(type_, {"post": "1", "author": "Bob"}) == names[0]
    assert digest_group(type_, {"author": "Ada"}) == names[-1]
