import re
from typing import get_args

from litestar.routes import HTTPRoute

from tests.edges.edge import Edge, services
from tocsin.api.app import ROUTES, create_app
from tocsin.api.dashboard.access import ACCESS
from tocsin.api.routes import OPERATION
from tocsin.domain.delivery.reasons import Rule
from tocsin.domain.delivery.states import State
from tocsin.store.pool import Pool


async def test_every_route_is_in_the_document(edge: Edge) -> None:
    document = (await edge.http.get("/openapi.json")).json()
    app = create_app(services(edge.pool))
    routes = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in app.routes
        if isinstance(route, HTTPRoute) and not route.path.startswith("/dashboard")
        for method in route.methods
        if method != "OPTIONS"
    }

    documented = {(path, method) for path, calls in document["paths"].items() for method in calls}

    assert documented == routes
    assert len(routes) == len(ROUTES)


async def test_calls_tell_who_may_make_them_and_what_can_go_wrong(edge: Edge) -> None:
    paths = (await edge.http.get("/openapi.json")).json()["paths"]

    accept = paths["/v1/notifications"]["post"]
    assert accept["security"] == [{"key": []}, {"key_header": []}, {"token": []}]
    assert accept["responses"].keys() == {"202", "400", "401", "403", "409", "413", "422", "500", "503"}
    assert accept["requestBody"]["content"]["application/json"]["example"]["type"] == "new_customer"
    assert [parameter["name"] for parameter in accept["parameters"]] == ["Idempotency-Key", "traceparent"]
    assert paths["/v1/devices"]["get"]["security"] == [{"person": []}]
    assert paths["/healthz"]["get"]["security"] == []


async def test_every_reference_in_the_document_leads_somewhere(edge: Edge) -> None:
    answer = await edge.http.get("/openapi.json")
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))

    assert names
    assert names <= answer.json()["components"]["schemas"].keys()


async def test_bodies_are_described_as_they_are_checked(edge: Edge) -> None:
    schemas = (await edge.http.get("/openapi.json")).json()["components"]["schemas"]

    register = schemas["RegisterDevice"]
    assert register["required"] == ["token", "platform"]
    assert register["properties"]["platform"]["enum"] == ["android", "ios", "web"]
    assert register["properties"]["token"]["maxLength"] == 4096
    assert register["properties"]["token"]["pattern"].endswith("$")
    assert register["additionalProperties"] is False


async def test_no_route_is_without_a_declared_operation(pool: Pool) -> None:
    app = create_app(services(pool))

    for route in app.routes:
        assert isinstance(route, HTTPRoute)
        for handler in route.route_handlers:
            is_declared = OPERATION in handler.opt or ACCESS in handler.opt
            assert is_declared or handler.http_methods == {"OPTIONS"}


async def test_values_that_may_grow_are_listed(edge: Edge) -> None:
    schemas = (await edge.http.get("/openapi.json")).json()["components"]["schemas"]

    assert schemas["Delivery"]["properties"]["state"]["enum"] == list(State)
    assert set(schemas["Step"]["properties"]["rule"]["enum"]) == set(get_args(Rule))


async def test_answers_are_told_apart_by_their_status(edge: Edge) -> None:
    document = (await edge.http.get("/openapi.json")).json()

    accepted = document["paths"]["/v1/notifications"]["post"]["responses"]["202"]["content"][
        "application/json"
    ]
    assert accepted["schema"]["discriminator"]["mapping"].keys() == {"accepted", "duplicate"}
    results = document["components"]["schemas"]["BatchResults"]["properties"]["results"]["items"]
    assert results["discriminator"]["mapping"].keys() == {"accepted", "duplicate", "conflict", "invalid"}


async def test_a_body_that_may_be_left_out_is_not_required(edge: Edge) -> None:
    paths = (await edge.http.get("/openapi.json")).json()["paths"]

    assert not paths["/v1/admin/providers/{name}/pause"]["post"]["requestBody"]["required"]
    assert paths["/v1/devices/register"]["post"]["requestBody"]["required"]
    assert "requestBody" not in paths["/v1/devices"]["get"]
