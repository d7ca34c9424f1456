from tests.edges.edge import Edge, running, services
from tocsin.engine.webpush_keys import WebPushKeys
from tocsin.providers.webpush.crypto import new_private_key_pem, public_key_of
from tocsin.store.pool import Pool


async def test_a_page_gets_the_key_without_credentials(pool: Pool) -> None:
    private_key = new_private_key_pem()
    key = public_key_of(private_key)
    async with running(services(pool, webpush_keys=WebPushKeys(pool, [private_key]))) as edge:
        answer = await edge.http.get("/v1/webpush/key")

    assert (answer.status_code, answer.json()) == (200, {"public_key": key})


async def test_without_web_push_there_is_no_key(edge: Edge) -> None:
    answer = await edge.http.get("/v1/webpush/key")

    assert answer.status_code == 404
    assert answer.json()["code"] == "webpush_unavailable"
