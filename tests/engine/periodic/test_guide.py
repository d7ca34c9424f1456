"""What the guide to periodic producers shows works as it is shown."""

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.engine.stage import Stage
from tocsin.engine.periodic.load import load_sources
from tocsin.engine.periodic.settings import PeriodicSettings
from tocsin.periodic import Checkpoint

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "periodic.md").read_text()


def shown(title: str) -> str:
    found = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


class Customer:
    id, name, owner_id = 7, "Ali Veli", "ada"


def test_the_scan_is_read(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "customers.yaml").write_text(shown("periodic/customers.yaml"))
    settings = PeriodicSettings(folder=tmp_path, databases={"crm": "postgresql://127.0.0.1/crm"})

    [source] = load_sources(settings, stage.catalog, stage.clock())

    assert (source.name, source.value_type, source.batch) == ("new_customers", "timestamptz", 500)


async def test_the_module_is_imported_and_yields(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def customers_after(number: int) -> AsyncIterator[type[Customer]]:
        if number < Customer.id:
            yield Customer

    crm = ModuleType("app.crm")
    crm.customers_after = customers_after  # type: ignore[attr-defined]
    app = tmp_path / "app"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "notifications.py").write_text(shown("app/notifications.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "app.crm", crm)

    [source] = load_sources(PeriodicSettings(modules=["app.notifications"]), stage.catalog, stage.clock())
    checkpoint = Checkpoint(value=3, scheduled_for=stage.clock())
    [step] = [step async for step in source.steps(checkpoint)]

    assert step.checkpoint == 7
    for name in ("app", "app.notifications"):
        sys.modules.pop(name)
