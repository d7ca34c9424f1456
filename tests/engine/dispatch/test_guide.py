"""The calls of the first guide, at three in the morning, with the settings that Tocsin has by default."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.edges.edge import person, running, services
from tests.engine.stage import Stage, StubProvider
from tocsin.api.auth.roles import Role
from tocsin.domain.timing.quiet_hours import QuietHoursSettings

GUIDE = (Path(__file__).parents[3] / "docs" / "start" / "first-notification.md").read_text()
CALL = re.compile(r"curl -s http://127\.0\.0\.1:8470(\S+) .*?-d '(.+?)'\n", re.DOTALL)


async def test_what_the_first_guide_sends_arrives_at_three_in_the_morning(stage: Stage) -> None:
    calls: dict[str, Any] = {path: msgspec.json.decode(body) for path, body in CALL.findall(GUIDE)}
    assert set(calls) == {"/v1/devices/register", "/v1/notifications"}
    stage.quiet = QuietHoursSettings()
    stage.clock.move_to(datetime(2026, 1, 15, 3, 0, tzinfo=UTC))
    provider = StubProvider()
    parts = services(stage.pool, clock=stage.clock, acceptor=stage.acceptor)
    async with running(parts) as edge, stage.working(provider):
        credentials = {
            "/v1/devices/register": person("ada"),
            "/v1/notifications": await edge.key(Role.PRODUCER),
        }
        answers = [
            await edge.http.post(path, json=body, headers=credentials[path]) for path, body in calls.items()
        ]
        await stage.settled(answers[-1].json()["notification_id"], "sent")

    assert [answer.status_code for answer in answers] == [200, 202]
    assert [message.target for message in provider.arrived] == ["adas-phone"]
