"""The browser page of the example, and what it asks for besides the gateway."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import jwt
from litestar import Litestar, Response, get, post

from examples.galaxy.bodies import Bodies
from examples.galaxy.samples import ADMINS, PLAYERS, SAMPLES
from tocsin.sandbox import Sandbox
from tocsin.sandbox.appearance import appearance

ASSETS = Path(__file__).parent / "page"
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HOUR = 3_600
MOST_MAILS = 500


def token_for(user_id: str, secret: str) -> str:
    """Sign a token as the platform's login does for a player."""
    now = int(time.time())
    return jwt.encode({"sub": user_id, "iat": now, "exp": now + 12 * HOUR}, secret, "HS256")


class Site:
    """The page, its data, and the button that sends everything again."""

    def __init__(
        self, sandbox: Sandbox, bodies: Bodies, publish: Callable[[], Awaitable[int]], *, jwt_secret: str
    ) -> None:
        self._sandbox = sandbox
        self._bodies = bodies
        self._publish = publish
        self._jwt_secret = jwt_secret
        # Another page in the same browser does not know it, so it cannot press the button.
        self._form_token = secrets.token_urlsafe(16)
        self.gateway_url = ""
        self.rounds = 0

    def app(self) -> Litestar:
        """Build the application."""

        @get(["/", "/{name:str}"], sync_to_thread=False)
        def asset(name: str = "index.html") -> Response[bytes]:
            return self._asset(name)

        @get("/data/setup", sync_to_thread=False)
        def setup() -> dict[str, Any]:
            return self._setup()

        @get("/data/mails", sync_to_thread=False)
        def mails(after: int = 0) -> dict[str, Any]:
            return self._mails(after)

        @post("/data/rounds")
        async def send_again(data: dict[str, str]) -> Response[dict[str, int]]:
            if not secrets.compare_digest(data.get("form_token", "").encode(), self._form_token.encode()):
                return Response({}, status_code=403)
            await self._publish()
            return Response({"rounds": self.rounds}, status_code=202)

        return Litestar([asset, setup, mails, send_again], openapi_config=None, logging_config=None)

    def _asset(self, name: str) -> Response[bytes]:
        known = {path.name: path for path in ASSETS.iterdir()}
        if name not in known:
            return Response(b"Not found", status_code=404, media_type="text/plain")
        path = known[name]
        policy = f"{POLICY}; connect-src 'self' {self.gateway_url}"
        headers = {"content-security-policy": policy, "cache-control": "no-store"}
        return Response(path.read_bytes(), media_type=f"{MEDIA[path.suffix]}; charset=utf-8", headers=headers)

    def _setup(self) -> dict[str, Any]:
        return {
            "gateway": self.gateway_url,
            "players": [
                {"id": user, "name": player.name, "token": token_for(user, self._jwt_secret)}
                for user, player in PLAYERS.items()
            ],
            "mailboxes": _mailboxes(),
            "tables": self._bodies.tables(),
            "types": expected(),
            "rounds": self.rounds,
            "form_token": self._form_token,
        }

    def _mails(self, after: int) -> dict[str, Any]:
        found = list(self._sandbox.phones.messages(after=max(after, 0), limit=MOST_MAILS))
        return {
            "rounds": self.rounds,
            "mails": [
                {
                    "number": mail.number,
                    "at": mail.at,
                    "to": mail.target,
                    "subject": (shown := appearance(mail)).title,
                    "text": shown.body,
                    "type": TYPE_OF.get(shown.title, ""),
                }
                for mail in found
                if mail.provider == "smtp"
            ],
        }


def _mailboxes() -> dict[str, str]:
    """Return whose each mail address is."""
    players = {player.email: player.name for player in PLAYERS.values()}
    return players | {address: "Administrators" for listed in ADMINS.values() for address in listed}


TYPE_OF: Mapping[str, str] = {sample.subject: sample.type for sample in SAMPLES}


def expected() -> list[dict[str, Any]]:
    """Return how many events and mails come of each type in one round."""
    counts: dict[str, dict[str, Any]] = {}
    for sample in SAMPLES:
        count = counts.setdefault(sample.type, {"type": sample.type, "events": 0, "mails": 0})
        count["events"] += len(sample.pushed_to)
        count["mails"] += len(sample.mailed_to)
    return list(counts.values())
