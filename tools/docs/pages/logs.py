"""The reference of log lines, from the calls that write them."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tools.docs.markdown import code, codes, page, table
from tools.docs.source import modules

INTRO = (
    "Logs go to standard error, one line an event: readable on a terminal, JSON elsewhere "
    "(`TOCSIN_LOG__FORMAT`, `TOCSIN_LOG__LEVEL`). The same field means the same thing everywhere. A field "
    "without a value is left out. Device tokens, mail addresses, API keys and people's tokens are never "
    "logged. [Functions on AWS](../guides/aws.md#logs-and-alarms) write the same lines to CloudWatch, with "
    "`message_id`, `event_id`, `event_type` and `correlation_id` in each line about a message."
)
ALWAYS = {
    "timestamp": "when, in UTC",
    "level": "`debug`, `info`, `warning` or `error`",
    "event": "what happened, in words that do not vary: search for these",
    "logger": "the module that says it",
}
NAMES = {
    "notification_id": "the notification; `tocsin show` takes it",
    "type": "its type in the catalog",
    "producer": "who handed it in",
    "delivery_id": "the delivery; the app gets it with the push",
    "route_id": "`<channel>:<recipient>`, such as `push:user:ada`; of an e-mail address its hash",
    "channel": "by which channel",
    "request_id": "the producer's, as handed in with the intent; in lines of the API, the `X-Request-ID`",
    "trace_id": "the producer's, as handed in with the intent, or the trace of its request",
}
METHODS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}


class Line(NamedTuple):
    """One logging call."""

    module: str
    level: str
    event: str
    fields: tuple[str, ...]
    names_a_delivery: bool


def logs_page() -> str:
    """Build the page."""
    lines = sorted(_lines(), key=lambda line: (line.module, line.event))
    return page(
        "Logs",
        INTRO,
        "## Fields of every line",
        table(["field", "meaning"], ([code(name), meaning] for name, meaning in ALWAYS.items())),
        "## Fields that name a delivery",
        table(["field", "meaning"], ([code(name), meaning] for name, meaning in NAMES.items())),
        "## Events",
        "*delivery* stands for the fields above. Where `alarm` is true, an operator has to act.",
        table(["event", "level", "fields", "module"], map(_row, lines)),
    )


def _row(line: Line) -> list[str]:
    fields = [text for text in ("*delivery*" if line.names_a_delivery else "", codes(line.fields)) if text]
    return [line.event, line.level, ", ".join(fields), code(line.module.removeprefix("tocsin."))]


def _lines() -> Iterator[Line]:
    for module, tree in modules():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            chosen = _chosen_levels(function)
            for node in _calls(function):
                if said := _said(node, chosen):
                    level, event = said
                    fields = tuple(word.arg for word in node.keywords if word.arg and word.arg != "exc_info")
                    spread = any(word.arg is None for word in node.keywords)
                    yield Line(module, level, event, fields, spread)


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """List the calls in a function, without those of functions within it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _calls(node)


def _chosen_levels(function: ast.AST) -> str:
    """Return the levels between which a function chooses: `log = _log.error if … else _log.info`."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Name(id="log")],
                value=ast.IfExp(body=ast.Attribute(attr=one), orelse=ast.Attribute(attr=other)),
            ):
                return f"{METHODS[one]} or {METHODS[other]}"
    return ""


def _said(call: ast.Call, chosen: str) -> tuple[str, str] | None:
    """Return the level and the event of a logging call."""
    match call.func, call.args:
        case ast.Attribute(value=ast.Name(id="_log"), attr=method), [event] if method in METHODS:
            return METHODS[method], _words(event)
        case ast.Attribute(value=ast.Name(id="_log"), attr="log"), [_, event]:
            return "warning or error", _words(event)
        case ast.Name(id="log"), [event] if chosen:
            return chosen, _words(event)
        case _:
            return None


def _words(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.IfExp(body=body, orelse=otherwise):
            return f"{_words(body)} / {_words(otherwise)}"
        case _:
            raise ValueError(f"line {node.lineno}: an event must be words that do not vary")
