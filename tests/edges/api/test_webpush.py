from collections.abc import Mapping

from litestar import Litestar
from litestar.datastructures import State
from litestar.testing import AsyncTestClient

from tocsin.api.http.failures import FAILURES
from tocsin.api.person.webpush import webpush_key
from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of


def app(state: Mapping[str, str | None]) -> Litestar:
    return Litestar([webpush_key], exception_handlers=FAILURES, openapi_config=None, state=State(dict(state)))


async def test_a_page_gets_the_key_without_saying_who_asks() -> None:
    key = public_key_of(new_private_key_pem())
    async with AsyncTestClient(app({"webpush_key": key})) as client:
        answer = await client.get("/v1/webpush/key")

    assert (answer.status_code, answer.json()) == (200, {"public_key": key})


async def test_without_web_push_there_is_no_key() -> None:
    for state in ({"webpush_key": None}, {}):
        async with AsyncTestClient(app(state)) as client:
            answer = await client.get("/v1/webpush/key")

        assert answer.status_code == 404
        assert answer.json()["code"] == "webpush_unavailable"
