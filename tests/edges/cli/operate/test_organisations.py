"""Organisations by the command line, on the database and over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.edges.api.organisations.world import AUTH, Organisation, add_organisation
from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge, running, services
from tests.rows import add_delivery, add_notification
from tocsin.api.auth.roles import Role
from tocsin.store.pool import Pool

SEND = ("send", "new_customer", "--payload", '{"customer_name": "Ada"}', "--json")

Command = Callable[..., Awaitable[Ran]]


@pytest.fixture
async def edge(pool: Pool) -> AsyncIterator[Edge]:
    async with running(services(pool, auth=AUTH)) as opened:
        yield opened


@pytest.fixture
async def acme(edge: Edge) -> Organisation:
    return await add_organisation(edge, "acme", "ann")


@pytest.fixture
async def globex(edge: Edge) -> Organisation:
    return await add_organisation(edge, "globex", "bob")


@pytest.fixture
def local(database_url: str, tmp_path: Path) -> Command:
    async def tocsin(*arguments: str, scoping: str = "true") -> Ran:
        environment = {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_AUTH__ORG_SCOPING": scoping}
        return await asyncio.to_thread(run, arguments, environment, tmp_path)

    return tocsin


@pytest.fixture
def remote(edge: Edge, tmp_path: Path) -> Command:
    async def tocsin(headers: dict[str, str], *arguments: str) -> Ran:
        key = headers["Authorization"].removeprefix("Bearer ")
        environment = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}
        return await asyncio.to_thread(run, arguments, environment, tmp_path)

    return tocsin


async def test_a_bound_key_is_made_on_the_database_and_over_http(
    edge: Edge, local: Command, remote: Command
) -> None:
    admin = await edge.key(Role.ADMIN, "platform")
    made = await local("keys", "create", "crm", "--org", "acme", "--json")
    other = await local("keys", "create", "crm", "--org", "globex")
    off = await local("keys", "create", "crm", "--org", "acme", scoping="false")
    by_http = await remote(admin, "keys", "create", "shop", "--org", "acme", "--json")
    clash = await remote(admin, "keys", "create", "shop", "--org", "globex")
    useless = await local("keys", "create", "fn", "--org", "acme", "--role", "delivery")
    listed = await local("keys", "list")

    assert (made.json["org_id"], by_http.json["org_id"]) == ("acme", "acme")
    for failed in (other, clash):
        assert "has keys of the organisation acme" in failed.said
    assert (useless.code, "for the role delivery" in useless.said) == (2, True)
    assert (off.code, "TOCSIN_AUTH__ORG_SCOPING is off" in off.said) == (2, True)
    assert " ".join(listed.out.split()).count("producer of acme") == 2


async def test_what_another_organisation_has_is_not_there_for_a_bound_key(
    acme: Organisation, globex: Organisation, remote: Command
) -> None:
    ids = globex.ids
    for command in (
        ("show", ids["notification_id"]),
        ("show", ids["external_id"]),
        ("cancel", ids["waiting_id"]),
        ("person", "bob"),
        ("users", "export", "bob"),
        ("users", "erase", "bob", "--yes"),
        ("dead", "stop", ids["replay_id"]),
        (*SEND, "--user", "bob"),
        ("explain", *SEND[1:-1], "--user", "bob"),
    ):
        ran = await remote(acme.headers, *command)
        assert ran.code not in {0, None}, (command, ran)
        assert "globex" not in ran.said.replace(ids["external_id"], ""), command
    found = await remote(acme.headers, "list", "--json")
    other = await remote(acme.headers, "list", "--org", "globex")
    sent = await remote(acme.headers, *SEND, "--user", "ann")

    assert {each["org_id"] for each in found.json["items"]} == {"acme"}
    assert "bound to another organisation" in other.said
    assert sent.json["status"] == "accepted"


async def test_the_command_line_selects_by_organisation(
    edge: Edge, acme: Organisation, globex: Organisation, local: Command
) -> None:
    unbound = await add_notification(edge.pool)
    await add_delivery(edge.pool, notification_id=unbound)
    listed = await local("list", "--org", "globex", "--json")
    dead = await local("dead", "list", "--org", "globex", "--json")
    dry = await local("cancel", "--org", "acme", "--dry-run", "--json")
    shown = await local("show", globex.ids["notification_id"])
    person = await local("person", "bob")
    refused = await local(*SEND, "--user", "bob", "--org", "acme")
    explained = await local("explain", *SEND[1:-1], "--user", "bob", "--org", "acme")

    assert {each["org_id"] for each in listed.json["items"]} == {"globex"}
    assert sum(group["count"] for group in dead.json["groups"]) == 1
    assert dry.json["matched"] == 1
    assert "organisation globex" in shown.out
    assert "organisation globex" in person.out
    for ran in (refused, explained):
        assert "not people of the organisation: bob" in ran.said
    assert acme.org_id == "acme"
