"""Tocsin alone: an envelope in an outbox, its icon, severity, deep link and extras on phones."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import rows
from tests.acceptance.installation import Installation
from tests.aws.publisher.office import TABLE, Office, envelope, opened_office
from tests.waiting import until

# As the guide has it.
TYPE = """\
comment_added:
  version: 1
  category: work
  channels: [push]
  payload:
    type: object
    properties:
      title: {type: string, examples: [New comment]}
      body: {type: string, examples: [Looks good]}
      icon: {type: string, pattern: "^[a-z][a-z0-9_]*$", examples: [comment]}
      severity: {enum: [info, success, warn, error]}
      deep_link: {type: string, pattern: "^fisa://\\\\S+$", examples: ["fisa://work-item/7?tab=comments"]}
      extras: {type: object, properties: {work_item_id: {type: string}}}
    required: [title, body]
    additionalProperties: false
  data:
    icon: "{{ icon | default('bell') }}"
    severity: "{{ severity | default('info') }}"
    extras: "{{ extras | default({}) | tojson }}"
  push:
    icon: "{{ icon | default('bell') }}"
    severity: "{{ severity | default('info') }}"
    deep_link: "{{ deep_link | default('') }}"
"""
WRITTEN: dict[str, Any] = {
    "title": "SLA at risk",
    "body": "Ticket 7 is due in 10 minutes",
    "icon": "warning",
    "severity": "error",
    "deep_link": "fisa://work-item/7?tab=comments",
    "extras": {"work_item_id": "7", "priority": "high", "nested": {"a": ["b", 1, True]}},
}


@pytest.fixture
async def office(server_url: str) -> AsyncIterator[Office]:
    async with opened_office(server_url) as opened:
        yield opened


def catalog(folder: Path) -> str:
    files = {
        "types/comment_added.yaml": TYPE,
        "templates/comment_added/en/push.title.j2": "{{ title }}\n",
        "templates/comment_added/en/push.body.j2": "{{ body }}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


async def test_what_an_envelope_says_arrives_on_android_and_on_apples_phones(
    installation: Installation, office: Office, tmp_path: Path
) -> None:
    sandbox = installation.sandbox
    installation.environment |= {
        "TOCSIN_CATALOG": catalog(tmp_path / "catalog"),
        "TOCSIN_APNS__KEY_FILE": str(sandbox.apns.write_key(tmp_path / "key.p8")),
        "TOCSIN_APNS__KEY_ID": sandbox.apns.key_id,
        "TOCSIN_APNS__TEAM_ID": sandbox.apns.team_id,
        "TOCSIN_APNS__TOPIC": "com.example.app",
        "TOCSIN_APNS__BASE_URL": sandbox.https_url,
        "TOCSIN_APNS__CA_FILE": str(sandbox.ca_file),
        "TOCSIN_OUTBOXES__OFFICE__URL": office.url,
        "TOCSIN_OUTBOXES__OFFICE__TABLE": TABLE,
        "TOCSIN_OUTBOXES__OFFICE__ENVELOPE": "fisa",
        "TOCSIN_OUTBOXES__OFFICE__POLL_SECONDS": "0.05",
    }
    await rows.add_device(installation.pool, "ada", token="ada-android")
    await rows.add_device(installation.pool, "ada", token="ada0a0a5", provider="apns", platform="ios")
    await installation.start("relay")
    await installation.start_worker()

    await office.write(envelope("ada", **WRITTEN))

    def arrived() -> dict[str, Any]:
        return {each.provider: each.message for each in sandbox.phones.messages(after=0, limit=10)}

    await until(lambda: len(arrived()) == 2, within=60)
    fcm, apns = arrived()["fcm"], arrived()["apns"]
    assert fcm["notification"] == {"title": WRITTEN["title"], "body": WRITTEN["body"]}
    assert fcm["android"]["notification"]["icon"] == "warning"
    assert fcm["android"]["notification"]["notification_priority"] == "PRIORITY_MAX"
    assert apns["aps"]["alert"] == {"title": WRITTEN["title"], "body": WRITTEN["body"]}
    assert apns["aps"]["interruption-level"] == "time-sensitive"
    for data in (fcm["data"], apns):
        assert data["deep_link"] == WRITTEN["deep_link"]
        assert (data["icon"], data["severity"]) == ("warning", "error")
        assert msgspec.json.decode(data["extras"]) == WRITTEN["extras"]
