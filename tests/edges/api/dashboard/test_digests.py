"""A member of a digest is shown as the message that the digest is sent as."""

import html
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import running, services
from tests.rows import NEVER, NOW, add_carrier, add_delivery, add_digest, add_notification
from tocsin.api.auth.roles import Role
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog
from tocsin.store.pool import Pool

COMMENT = """\
comment:
  version: 1
  category: comments
  channels: [push]
  payload:
    type: object
    properties:
      author: {type: string}
    required: [author]
  policies:
    digest: {window: 1h}
"""


def comments(folder: Path) -> Catalog:
    texts = folder / "templates/comment/en"
    texts.mkdir(parents=True)
    (folder / "types").mkdir()
    (folder / "types/comment.yaml").write_text(COMMENT)
    (texts / "push.title.j2").write_text("{{ count }} comments")
    (texts / "push.body.j2").write_text("{{ items | map(attribute='author') | join(' ') }}")
    return load_catalog(folder)


async def add_comment(pool: Pool, author: str, **delivery: Any) -> UUID:
    payload = msgspec.json.encode({"author": author}).decode()
    made = await add_notification(pool, type="comment", version=1, payload=payload, idempotency_key=author)
    await add_delivery(pool, notification_id=made, **delivery)
    return made


async def test_a_member_is_shown_as_the_whole_digest(pool: Pool, tmp_path: Path) -> None:
    digest_id = await add_digest(pool, type="comment", version=1)
    await add_carrier(pool, digest_id)
    held = {"digest_id": digest_id, "state": "scheduled", "due_at": NEVER, "held_by": "digest"}
    member, _ = [await add_comment(pool, author, **held) for author in ("ada", "grace")]
    alone = await add_comment(pool, "linus", state="sent", settled_at=NOW)
    parts = services(pool)
    rules = msgspec.structs.replace(parts.explainer.rules, catalog=comments(tmp_path))
    explainer = msgspec.structs.replace(parts.explainer, rules=rules)
    async with running(msgspec.structs.replace(parts, explainer=explainer)) as edge:
        visit = await signed_in(edge, Role.VIEWER)
        collected, single = [
            html.unescape(await visit.shown(f"/dashboard/notifications/{each}")) for each in (member, alone)
        ]

    message = re.compile(r'class="push-(?:title|body)"[^>]*>([^<]*)<')
    assert message.findall(collected) == ["2 comments", "ada grace"]
    assert "Push in en, the digest of 2 to user:ada so far<" in collected
    assert f"digest {digest_id}" in collected
    assert message.findall(single) == ["1 comments", "linus"]
    assert "the digest of" not in single
