"""The OpenFeature providers that evaluate toggles: our table, or one that the settings import."""

import importlib
from typing import Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import FeatureProvider, Metadata
from openfeature.provider.no_op_provider import NoOpProvider

from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault

_NEEDED = (
    "attach",
    "initialize",
    "shutdown",
    "get_metadata",
    "get_provider_hooks",
    "resolve_boolean_details",
)


class TableProvider(NoOpProvider):
    """Evaluates toggles from the names that are off in our table; every other toggle is on."""

    def __init__(self) -> None:
        super().__init__()
        self.off: frozenset[str] = frozenset()

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata("tocsin")

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: ARG002, FBT001 - the signature is OpenFeature's
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - as above
    ) -> FlagResolutionDetails[bool]:
        """Return whether a toggle is on."""
        if flag_key in self.off:
            return FlagResolutionDetails(value=False, reason=Reason.STATIC)
        return FlagResolutionDetails(value=True, reason=Reason.DEFAULT)


def load_provider(path: str) -> FeatureProvider:
    """Import a callable by its path and return the provider that it builds."""
    module_name, _, name = path.partition(":")
    try:
        make: Any = importlib.import_module(module_name)
    except Exception as error:
        raise _unusable(path, f"cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        make = getattr(make, part, None)
    if not callable(make):
        raise _unusable(path, f"names nothing that can be called in {module_name}")
    try:
        provider: FeatureProvider = make()
    except Exception as error:
        raise _unusable(path, f"failed: {type(error).__name__}: {error}") from error
    if missing := [name for name in _NEEDED if not callable(getattr(provider, name, None))]:
        returned = f"returned a {type(provider).__name__}, not an OpenFeature provider"
        raise _unusable(path, f"{returned}: it lacks {', '.join(missing)}")
    return provider


def _unusable(path: str, message: str) -> SettingsError:
    fault = Fault(
        field="toggles.provider (TOCSIN_TOGGLES__PROVIDER)", code="unusable", message=f"{path} {message}"
    )
    return SettingsError("The settings cannot be used:", [fault])
