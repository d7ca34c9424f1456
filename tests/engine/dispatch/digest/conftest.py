from pathlib import Path

import pytest

from tests.engine.dispatch.digest.comments import NOON
from tests.engine.stage import Stage, StubProvider
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog

COMMENT = """\
comment:
  version: 2
  category: comments
  channels: [push]
  payload:
    type: object
    properties:
      author: {type: string}
      post: {type: string}
    required: [author]
  data:
    count: "{{ count }}"
  policies:
    digest: {window: 1h, by: post}
    attempts: {push: 2}
    backoff: ladder(10s)
  versions:
    1:
      payload:
        type: object
        properties:
          who: {type: string}
        required: [who]
      upgrade: {rename: {who: author}}
"""
TITLE = "{{ count | plural(one='A comment', other=(count | number) ~ ' comments') }}, last by {{ author }}"
BODY = "{{ items | map(attribute='author') | join(' ') }}"


@pytest.fixture(autouse=True)
def _at_noon(stage: Stage) -> None:
    stage.clock.move_to(NOON)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Give a type that collects for an hour, by post."""
    folder: Path = tmp_path_factory.mktemp("digests")
    texts = folder / "templates" / "comment" / "en"
    texts.mkdir(parents=True)
    (folder / "types").mkdir()
    (folder / "types" / "comment.yaml").write_text(COMMENT)
    (texts / "push.title.j2").write_text(TITLE)
    (texts / "push.body.j2").write_text(BODY)
    return load_catalog(folder)


@pytest.fixture
def provider() -> StubProvider:
    return StubProvider()
