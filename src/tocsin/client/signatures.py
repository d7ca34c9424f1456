"""Calls as people write them and as `help` shows them."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tocsin.client.exchange import Plan
from tocsin.client.intents import Intent

P = ParamSpec("P")
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def in_words(plan: Callable[[Any], Plan[T]], made: Callable[P, Intent]) -> Callable[P, Plan[T]]:
    """Let a plan that takes an intent be called with the words that make one."""

    def worded(*args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        return plan(made(*args, **kwargs))

    worded.__name__, worded.__doc__ = plan.__name__, plan.__doc__
    worded.__dict__["__signature__"] = inspect.signature(made)
    return worded


def shown_as(method: Method, source: Callable[..., Any], name: str) -> Method:
    """Let `help` and editors show a method with the parameters of what it was made from."""
    parameters = inspect.signature(source).parameters.values()
    method.__dict__["__signature__"] = inspect.Signature([_SELF, *parameters])
    method.__doc__ = method.__doc__ or source.__doc__
    method.__name__ = name
    return method
