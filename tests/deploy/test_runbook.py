"""Every alarm that the source can raise has its section in the runbook."""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.providers.answers import Rule
from tocsin.providers.smtp.answers import MEANINGS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
RUNBOOK = (ROOT / "docs/guides/runbook.md").read_text()

COMPUTED = {
    ("tocsin.engine.catalog_watch", "code"): ("catalog_faulty", "catalogs_differ"),
    ("tocsin.engine.health.overdue_sweep", "each.code"): ("overdue", "lane_unserved"),
    ("tocsin.engine.health.circuit_breakers", "outcome.code[:LONGEST_CODE]"): (),  # those of the providers
    ("tocsin.ingress.redis_streams.consumer", "code"): (
        "redis_unreachable",
        "directory_unavailable",
        "entries_lost",
    ),
    ("tocsin.ingress.sqs.consumer", "code"): ("sqs_unreachable", "archive_unwritable"),
    ("tocsin.providers.apns.answers", "answer.code"): (),  # rows that are doubtful, which are listed too
    ("tocsin.providers.redis_streams.answers", "code"): (
        "gateway_stream_publish_failed",
        "mail_stream_publish_failed",
    ),
    ("tocsin.providers.answers", "code"): (),  # rows with an alarm, which are listed too
}
"""Codes that are not a constant where the alarm is raised, by module and expression."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SOURCE.rglob("*.py")):
        if "larm" in (text := file.read_text()):
            yield ".".join(file.relative_to(SOURCE).with_suffix("").parts), ast.parse(text)


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node


def marks_alarm(call: ast.Call) -> bool:
    return any(
        each.arg == "alarm" and ast.unparse(each.value) not in {"None", "False"} for each in call.keywords
    )


def raised_codes(module: str, tree: ast.Module) -> Iterator[str]:
    for name, call in calls(tree):
        if name == "Alarm":
            code = call.args[1]
        elif name in {"Defer", "Rejected"} and marks_alarm(call):
            code = call.args[0]
        else:
            continue
        match code:
            case ast.Constant(value=str(value)):
                yield value
            case ast.Name(id=constant) if constant.isupper():
                yield getattr(importlib.import_module(module), constant)
            case _:
                yield from COMPUTED[module, ast.unparse(code)]


def rules_in(value: Any) -> Iterator[Rule]:
    if isinstance(value, Rule):
        yield value
    elif isinstance(value, tuple | list):
        yield from (rule for each in value for rule in rules_in(each))


def provider_codes() -> Iterator[str]:
    for file in sorted((SOURCE / "tocsin/providers").glob("*/answers.py")):
        module = importlib.import_module(f"tocsin.providers.{file.parent.name}.answers")
        for rule in rules_in(list(vars(module).values())):
            if rule.code and (rule.alarm or rule.quarantine or rule.doubtful):
                yield rule.code
    yield from (code for code, meaning in MEANINGS.items() if meaning in {"credentials", "setup"})


def logged_events() -> Iterator[str]:
    for _, tree in modules():
        for name, call in calls(tree):
            if name in {"error", "warning", "log"} and marks_alarm(call):
                texts = (arg.value for arg in call.args if isinstance(arg, ast.Constant))
                yield next(text for text in texts if isinstance(text, str))


def unique(codes: Iterable[str]) -> list[str]:
    found = sorted(set(codes))
    assert found
    return found


@pytest.mark.parametrize(
    "code", unique(code for module, tree in modules() for code in raised_codes(module, tree))
)
def test_every_alarm_of_the_engine_has_a_section_of_its_own(code: str) -> None:
    assert re.search(rf"^##+ .*`{re.escape(code)}`", RUNBOOK, re.MULTILINE)


@pytest.mark.parametrize("code", unique(provider_codes()))
def test_every_alarm_of_a_provider_is_in_a_section(code: str) -> None:
    assert f"`{code}`" in RUNBOOK


def test_every_log_event_that_marks_an_alarm_is_in_the_runbook() -> None:
    assert [event for event in unique(logged_events()) if f"`{event}`" not in RUNBOOK] == []


def test_every_section_says_what_it_means_what_to_check_and_what_to_do() -> None:
    sections = re.split(r"^### ", RUNBOOK, flags=re.MULTILINE)[1:]
    parts = ("**Means.**", "**Check.**", "**Do.**")
    assert sections
    assert [each.splitlines()[0] for each in sections if not all(part in each for part in parts)] == []
