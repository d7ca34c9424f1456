"""What importing the client brings in, and what it must not."""

import subprocess
import sys

ALLOWED = {"msgspec", "pyreqwest", "tocsin", "typing_extensions"}


def _loaded_by(statement: str) -> set[str]:
    code = (
        f"import sys; before = set(sys.modules)\n{statement}\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*new - set(sys.stdlib_module_names))"
    )
    return set(subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split())


def test_the_client_needs_nothing_of_the_server() -> None:
    assert _loaded_by("import tocsin.client") <= ALLOWED
    assert _loaded_by("import tocsin.client.testing") <= ALLOWED


def test_the_plug_in_costs_a_test_run_nothing() -> None:
    loaded = _loaded_by("import pytest; before |= set(sys.modules); import tocsin.pytest_plugin")

    assert loaded == {"tocsin"}


def test_both_clients_have_the_same_calls() -> None:
    from tocsin.client import AsyncPerson, AsyncTocsin, Person, Tocsin

    def calls(client: type) -> set[str]:
        return {name for name in dir(client) if not name.startswith("_")}

    assert calls(Tocsin) == calls(AsyncTocsin)
    assert calls(Person) == calls(AsyncPerson)


def test_help_shows_the_fields_of_an_intent() -> None:
    import inspect

    from tocsin.client import AsyncTocsin, Tocsin

    for client in (Tocsin, AsyncTocsin):
        assert {"type", "users", "payload", "send_at"} <= set(inspect.signature(client.send).parameters)
        assert client.send.__doc__


def test_an_intent_has_a_key_of_its_own_unless_one_is_given() -> None:
    from tocsin.client import Intent

    made, other = Intent("t", idempotency_key=None), Intent("t")

    assert made.idempotency_key == made.key != other.key
    assert Intent("t", idempotency_key="order-1").key == "order-1"
