"""Methods that show the parameters of the function they are built from."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tocsin.client.exchange import Flow
from tocsin.client.intents import Intent

P = ParamSpec("P")
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


def taking_fields(flow: Callable[[Any], Flow[T]], intent_type: Callable[P, Intent]) -> Callable[P, Flow[T]]:
    """Convert a call that takes an intent into one that takes the fields of an intent."""

    def called(*args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        return flow(intent_type(*args, **kwargs))

    called.__name__, called.__doc__ = flow.__name__, flow.__doc__
    called.__dict__["__signature__"] = inspect.signature(intent_type)
    return called


def with_signature(method: Method, source: Callable[..., Any], name: str) -> Method:
    """Set the signature that `help` and editors show for a method to that of its source."""
    parameters = inspect.signature(source).parameters.values()
    method.__dict__["__signature__"] = inspect.Signature([_SELF, *parameters])
    method.__doc__ = method.__doc__ or source.__doc__
    method.__name__ = name
    return method
