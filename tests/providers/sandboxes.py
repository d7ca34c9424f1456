"""A bare HTTP caller for the sandbox, as any provider client would be."""

import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import jwt
import msgspec
from pyreqwest.client import Client, ClientBuilder

from tocsin.sandbox import Sandbox
from tocsin.sandbox.fcm.accounts import ServiceAccount

MESSAGING_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Reply(NamedTuple):
    status: int
    version: str
    headers: dict[str, str]
    body: Any

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.body["error"]
        return error

    def detail(self, type_name: str) -> dict[str, Any]:
        for detail in self.error["details"]:
            if detail["@type"].endswith(type_name):
                found: dict[str, Any] = detail
                return found
        raise AssertionError(f"no {type_name} among {self.error['details']}")

    @property
    def fcm_code(self) -> str:
        return str(self.detail("fcm.v1.FcmError")["errorCode"])

    @property
    def violated_fields(self) -> list[str]:
        return [violation["field"] for violation in self.detail("BadRequest")["fieldViolations"]]


class Caller:
    def __init__(self, client: Client, base_url: str) -> None:
        self._client = client
        self._base_url = base_url
        self.access_token = ""

    async def call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Reply:
        request = self._client.request(method, self._base_url + path).headers(headers or {}).body_bytes(body)
        response = await request.build().send()
        content = bytes(await response.bytes())
        is_json = "json" in response.headers.get("content-type", "")
        return Reply(
            response.status,
            response.version,
            dict(response.headers.items()),
            msgspec.json.decode(content) if is_json else content,
        )

    async def json(self, method: str, path: str, content: Any = None) -> Reply:
        return await self.call(method, path, b"" if content is None else msgspec.json.encode(content))

    async def authorize(self, account: ServiceAccount, **claims: Any) -> Reply:
        """Ask for an access token and use it from now on."""
        form = {"grant_type": JWT_BEARER, "assertion": assertion(account, **claims)}
        reply = await self.call("POST", "/token", urlencode(form).encode())
        if reply.status == 200:
            self.access_token = reply.body["access_token"]
        return reply

    async def send(
        self, message: dict[str, Any] | None = None, *, project: str = "sandbox", **request: Any
    ) -> Reply:
        content = msgspec.json.encode({"message": message} | request if message is not None else request)
        return await self.send_raw(content, project=project)

    async def send_raw(self, content: bytes, *, project: str = "sandbox") -> Reply:
        headers = {"authorization": f"Bearer {self.access_token}"} if self.access_token else {}
        return await self.call("POST", f"/v1/projects/{project}/messages:send", content, headers)


def assertion(account: ServiceAccount, **claims: Any) -> str:
    now = int(time.time())
    standard = {
        "iss": account.client_email,
        "aud": account.token_uri,
        "iat": now,
        "exp": now + 3_600,
        "scope": MESSAGING_SCOPE,
    }
    return jwt.encode(standard | claims, account.private_key, algorithm="RS256")


@contextlib.asynccontextmanager
async def calling(
    sandbox: Sandbox, *, secure: bool = False, timeout_seconds: float = 10.0, authorized: bool = True
) -> AsyncIterator[Caller]:
    """Open a caller that holds an access token for the project `sandbox`."""
    builder = ClientBuilder().timeout(dt.timedelta(seconds=timeout_seconds))
    if secure:
        builder = builder.http2(True).add_root_certificate_pem(sandbox.ca_file.read_bytes())
    async with builder.build() as client:
        caller = Caller(client, sandbox.https_url if secure else sandbox.http_url)
        if authorized:
            await caller.authorize(sandbox.service_account(secure=secure))
        yield caller
