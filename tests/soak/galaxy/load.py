"""The producers, which never give up, and the players who listen."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from typing import Any

import httpx
import jwt
import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.soak.galaxy.site import ADMINS, PEOPLE, SECRET

INTENTS = "notification:intents"


class Intent(msgspec.Struct, frozen=True):
    """An intent that was appended, with the routes that it must have."""

    key: str
    events: tuple[str, ...]
    commands: tuple[str, ...]


class Figures(msgspec.Struct, kw_only=True):
    """What was counted."""

    intents: int = 0
    appends_repeated: int = 0
    kills: Counter[str] = msgspec.field(default_factory=Counter)
    wrong: list[str] = msgspec.field(default_factory=list)
    events: int = 0
    commands: int = 0
    mails: int = 0
    seen_live: int = 0
    repeated: Counter[str] = msgspec.field(default_factory=Counter)


class Load:
    """Appends intents, each as often as it takes, and listens to what becomes of some."""

    def __init__(self, redis_url: str, gateway_url: str, seed: int, figures: Figures) -> None:
        self.intents: list[Intent] = []
        self.seen: dict[str, set[str]] = {}
        self._redis = Redis.from_url(redis_url, retry=None)
        self._gateway_url = gateway_url
        self._chance = random.Random(f"{seed} load")  # noqa: S311 - repeatable
        self._figures = figures

    async def append(self, rate: float, seconds: float) -> None:
        """Append intents at a rate for some seconds."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            while len(self.intents) < passed * rate:
                await self._append_one(len(self.intents))
            await asyncio.sleep(0.02)
        await self._redis.aclose()

    async def _append_one(self, number: int) -> None:
        users = self._chance.sample(range(PEOPLE), self._chance.randint(1, 3))
        people = [f"user:player-{user}" for user in users]
        kind = self._chance.choice(("game.turn.ready", "game.turn.ready", "lobby.invite.expired", "admins"))
        game = {"game_id": f"g{number}", "game_name": "Vega"}
        payload: dict[str, Any]
        match kind:
            case "game.turn.ready":
                payload, events, whom = {**game, "turn_number": number}, people, people
            case "lobby.invite.expired":
                payload, events, whom = {**game, "invitee_user_id": "x", "invitee_name": "X"}, [], people
            case _:
                kind, events, whom = "game.generation_failed", [], [f"email:{each}" for each in ADMINS]
                payload = {**game, "failure_reason": "seed"}
        ids = [each.removeprefix("user:") for each in people]
        fields: dict[Any, Any] = {
            "notification_type": kind,
            "producer": "soak",
            "audience_kind": "admin_email" if whom is not people else "user",
            "idempotency_key": f"intent-{number}",
            "occurred_at_ms": "1767225600000",
            "payload_json": json.dumps(payload),
            **({"recipient_user_ids_json": json.dumps(ids)} if whom is people else {}),
        }
        while True:
            try:
                await self._redis.xadd(INTENTS, fields)
            except (RedisError, OSError):
                # It may be on the stream all the same: the key makes the second one a duplicate.
                self._figures.appends_repeated += 1
                await asyncio.sleep(0.1)
            else:
                break
        routes = tuple(f"push:{each}" for each in events), tuple(f"email:{each}" for each in whom)
        self.intents.append(Intent(f"intent-{number}", *routes))

    async def listen(self, user: str) -> None:
        """Keep a session with the gateway and continue after the last event wherever it breaks off."""
        seen = self.seen.setdefault(user, set())
        token = jwt.encode({"sub": user, "exp": time.time() + 3_600}, SECRET, algorithm="HS256")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=self._gateway_url, timeout=httpx.Timeout(5, read=60)) as http:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    async with http.stream("GET", "/v1/events", headers=headers) as answer:
                        async for line in answer.aiter_lines():
                            name, _, value = line.partition(": ")
                            if name == "id":
                                headers["Last-Event-ID"] = value
                            elif name == "data" and "event_id" in (event := json.loads(value)):
                                seen.add(event["event_id"])
                await asyncio.sleep(0.2)
