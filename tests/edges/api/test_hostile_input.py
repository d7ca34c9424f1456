"""No input leads to an answer of 500: every route of the OpenAPI document, with hostile dates and strings."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edges.edge import Edge, faults, person
from tests.rows import NOW, add_delivery, add_device, add_notification
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.domain.timing.schedule import Schedule, ValueType
from tocsin.engine.clock import utc_now
from tocsin.store.sources import progress
from tocsin.store.sources.progress import Scheduled

Schema = dict[str, Any]

DAILY = Schedule("0 8 * * *", "UTC")
PRODUCERS: dict[str, ValueType | None] = {
    "new_customers": "timestamptz",
    "numbers": "bigint",
    "anything": None,
}

DATES = [
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999-14:00",
    "9998-12-31T23:59:59-14:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "1900-01-01T00:00:00+14:00",
    "1899-12-31T23:59:59Z",
    "2000-01-01T00:00:00Z",
    "2026-06-31T00:00:00Z",
    "2026-06-30T24:00:00Z",
    "2026-06-30T23:59:60Z",
    "2026-06-30",
    "2026-06-30T00:00:00",
    "9999-12-31T23:59:59",
    "0001-01-01T00:00:00",
    "+10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
]
TEXTS = [
    "",
    " ",
    "ada",
    "\x00",
    "a\x00b",
    "\ud800",
    "a\udfffb",
    "\ufffe",
    "\u202eabc\u202c",
    "\u0645\u0631\u062d\u0628\u0627",
    "\u2028",
    "\U0001f600" * 40,
    "x" * 129,
    "x" * 5_000,
    "../../etc/passwd",
    "' or 1=1 --",
    "%00",
    "9" * 400,
    "-1",
    "nan",
    "ada@example.org",
    "https://a..b.com/x",
    "Infinity",
]
CURSORS = [f"{date}~{text}" for date in DATES for text in ("ada@example.org", "\x00", "\u202e")]
NUMBERS = [0, 1, -1, 2**31, 2**63, -(2**63) - 1, 1e308, 10**400]

hostile_texts = (
    st.sampled_from(TEXTS) | st.sampled_from(DATES) | st.sampled_from(CURSORS) | st.text(max_size=20)
)
any_json = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | hostile_texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(hostile_texts, inner, max_size=2),
    max_leaves=4,
)


names = st.sampled_from(["type:new_customer", *PRODUCERS])


class Values:
    """Strategies for values of a schema: mostly of the right shape, so that they get past the decoding."""

    def __init__(self, document: Schema) -> None:
        self._components = document["components"]["schemas"]

    def of(self, schema: Schema) -> st.SearchStrategy[Any]:
        """Build the strategy of a schema."""
        if "$ref" in schema:
            return st.deferred(lambda: self.of(self._components[schema["$ref"].rsplit("/", 1)[1]]))
        for combined in ("anyOf", "oneOf"):
            if combined in schema:
                return st.one_of([self.of(each) for each in schema[combined]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        shapes: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
            "object": lambda: self._object(schema),
            "array": lambda: st.lists(self.of(schema.get("items", {})), min_size=1, max_size=3),
            "string": lambda: self._string(schema),
            "integer": lambda: st.sampled_from([1, 2, 3_600, *NUMBERS]),
            "number": lambda: st.sampled_from(NUMBERS),
            "boolean": st.booleans,
            "null": st.none,
        }
        kind = schema.get("type")
        return shapes[kind]() if isinstance(kind, str) else any_json

    def _object(self, schema: Schema) -> st.SearchStrategy[Any]:
        properties = {name: self.of(each) for name, each in schema.get("properties", {}).items()}
        if not properties:
            return st.dictionaries(hostile_texts, any_json, max_size=3)
        required = {name: each for name, each in properties.items() if name in schema.get("required", ())}
        optional = {name: each for name, each in properties.items() if name not in required}
        return st.fixed_dictionaries(required, optional=optional)

    @staticmethod
    def _string(schema: Schema) -> st.SearchStrategy[Any]:
        match schema.get("format"):
            case "date-time":
                return st.sampled_from(DATES)
            case "uuid":
                return st.uuids().map(str) | hostile_texts
            case _:
                return hostile_texts


class Caller:
    """Calls the routes of a server with what a strategy draws."""

    def __init__(self, edge: Edge, keys: dict[str, str], ids: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=edge.http.base_url, timeout=20)
        self.close = self._http.close
        self._key = keys
        self._ids = ids

    def call(self, method: str, path: str, operation: Schema, values: Values, data: st.DataObject) -> None:
        """Make a call with one hostile part, so that the others do not end it early; require no failure."""
        parameters = {each["name"]: each for each in operation.get("parameters", ())}
        parts = [*parameters, *(["body"] if "requestBody" in operation else [])]
        hostile = data.draw(st.sampled_from(parts), label="hostile part") if parts else None
        query, headers = [], self._credentials(operation)
        for name, parameter in parameters.items():
            text = data.draw(values.of(parameter["schema"]) | hostile_texts, label=name)
            text = text if isinstance(text, str) else json.dumps(text)
            if parameter["in"] == "path":
                text = text if name == hostile else self._ids.get(name) or data.draw(names, label=name)
                path = path.replace(f"{{{name}}}", quote(text, safe="", errors="surrogatepass") or "%20")
            elif name == hostile and parameter["in"] == "query":
                query.append(f"{name}={quote(text, safe='', errors='surrogatepass')}")
            elif name == hostile:
                headers[name] = "".join(filter(str.isprintable, text)).strip()
        content = None
        if "requestBody" in operation:
            content = json.dumps(data.draw(self._body(operation, values, hostile=hostile == "body"))).encode()
            headers["Content-Type"] = "application/json"
        answer = self._http.request(
            method,
            f"{path}?{'&'.join(query)}",
            content=content,
            headers=[(name.encode(), text.encode()) for name, text in headers.items()],
        )
        assert answer.status_code < 500, answer.text

    @staticmethod
    def _body(operation: Schema, values: Values, *, hostile: bool) -> st.SearchStrategy[Any]:
        ((_, described),) = operation["requestBody"]["content"].items()
        shaped = values.of(described["schema"])
        if "example" not in described:
            return shaped
        return shaped | mutated(described["example"]) if hostile else st.just(described["example"])

    def _credentials(self, operation: Schema) -> dict[str, str]:
        schemes = {scheme for each in operation["security"] for scheme in each}
        return dict(person("ada")) if "person" in schemes else dict(self._key)


@st.composite
def mutated(draw: st.DrawFn, example: Any) -> Any:
    """Draw an example of the document with one of its leaves replaced."""
    copy = json.loads(json.dumps(example))
    places = list(_places(copy))
    if places:
        parent, name = draw(st.sampled_from(places))
        parent[name] = draw(st.sampled_from(DATES) | hostile_texts | any_json)
    return copy


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in list(items):
        yield value, name
        yield from _places(inner)


async def test_no_route_fails_whatever_it_is_sent(edge: Edge) -> None:
    document = (await edge.http.get("/openapi.json")).json()
    notification_id = await add_notification(edge.pool, expires_at=NOW + timedelta(days=1))
    await add_delivery(edge.pool, notification_id=notification_id)
    ids = {
        "notification_id": str(notification_id),
        "device_id": str(await add_device(edge.pool, "ada")),
        "user_id": "ada",
        "address": "ada@example.org",
        "alarm_id": str(uuid7()),
        "endpoint_id": str(uuid7()),
        "key_id": str(uuid7()),
    }
    next_run = {"next_run_at": NOW, "now": NOW}
    for name, value_type in PRODUCERS.items():
        await progress.register(
            edge.pool, Scheduled(name=name, kind="scan", schedule=DAILY, value_type=value_type), **next_run
        )
    caller, values = Caller(edge, await edge.key(Role.ADMIN), ids), Values(document)

    def walk() -> list[str]:
        return [
            failed
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if (failed := fault_of(caller, method, path, operation, values))
        ]

    # Hypothesis is not asynchronous: it calls from a thread, and the server answers from this loop.
    try:
        assert await asyncio.to_thread(walk) == []
    finally:
        caller.close()


@pytest.mark.parametrize(
    "user_id", ["\ud800", "a\udfffb", "\x00", "\u202eabc", "x" * 129, "x" * 5_000, "\ufffe"]
)
async def test_no_claim_of_a_person_token_makes_a_call_fail(edge: Edge, user_id: str) -> None:
    for path in ("/v1/devices", "/v1/preferences"):
        answer = await edge.http.get(path, headers=person(user_id))

        assert answer.status_code in {200, 401}, answer.text
        if user_id == "\ud800":
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize("send_at", DATES)
async def test_a_time_has_the_same_bounds_in_every_call(edge: Edge, send_at: str) -> None:
    key = await edge.key(Role.ADMIN)
    notification_id = await add_notification(edge.pool, expires_at=NOW + timedelta(days=1))
    await add_delivery(edge.pool, notification_id=notification_id)
    intent = {"type": "new_customer", "audience": {"users": ["ada"]}, "payload": {"customer_name": "Ada"}}

    accepted = await edge.http.post(
        "/v1/notifications", json={**intent, "idempotency_key": "k", "send_at": send_at}, headers=key
    )
    moved = await edge.http.post(
        f"/v1/notifications/{notification_id}/reschedule", json={"send_at": send_at}, headers=key
    )
    shown = await edge.http.get(f"/v1/notifications/{notification_id}", headers=key)

    assert (accepted.status_code == 202) == (moved.status_code == 200), (accepted.text, moved.text)
    if accepted.status_code == 422:
        assert faults(accepted) == faults(moved)
    assert shown.status_code == 200


async def test_a_notification_moved_to_a_time_that_has_passed_is_sent_now_and_not_expired(edge: Edge) -> None:
    notification_id = await add_notification(edge.pool, expires_at=NOW + timedelta(days=1))
    await add_delivery(edge.pool, notification_id=notification_id)
    before = utc_now()

    await edge.http.post(
        f"/v1/notifications/{notification_id}/reschedule",
        json={"send_at": "1999-12-31T23:59:59Z"},
        headers=await edge.key(Role.ADMIN),
    )

    due_at, expires_at = await edge.pool.fetchrow(
        "select due_at, expires_at from deliveries join notifications on notifications.id = notification_id"
    )
    assert before <= due_at <= utc_now()
    assert expires_at == due_at + timedelta(days=1)


def fault_of(caller: Caller, method: str, path: str, operation: Schema, values: Values) -> str | None:
    """Return what the server fails on, if an input is found that it fails on."""
    has_input = "parameters" in operation or "requestBody" in operation

    @settings(max_examples=60 if has_input else 1, database=None)
    @given(data=st.data())
    def calls(data: st.DataObject) -> None:
        caller.call(method, path, operation, values, data)

    try:
        calls()
    except AssertionError as error:
        return f"{method.upper()} {path}: {error}"
    return None
