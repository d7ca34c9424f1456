"""A flag service as somebody else might write one: an OpenFeature provider with rules of its own."""

from collections.abc import Mapping
from typing import ClassVar

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagResolutionDetails, Reason
from openfeature.provider import Metadata
from openfeature.provider.no_op_provider import NoOpProvider


class FlagService(NoOpProvider):
    """Knows the flags it was given; one may be off for some channels only, and all of it may break."""

    made: ClassVar["list[FlagService]"] = []

    def __init__(self, *, starts: bool = True) -> None:
        super().__init__()
        self._starts = starts
        self.flags: dict[str, bool | set[str]] = {}
        self.broken = False
        self.shut = False
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.made.append(self)

    def initialize(self, evaluation_context: EvaluationContext) -> None:
        assert not evaluation_context.attributes
        if not self._starts:
            raise ConnectionRefusedError("flags.example does not answer")

    def shutdown(self) -> None:
        self.shut = True

    def get_metadata(self) -> Metadata:
        return Metadata("flag service")

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: FBT001 - the signature is OpenFeature's
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        attributes = dict(evaluation_context.attributes) if evaluation_context else {}
        self.asked.append((flag_key, attributes))
        if self.broken:
            raise ConnectionResetError("flags.example hung up")
        match self.flags.get(flag_key):
            case None:
                return FlagResolutionDetails(default_value, ErrorCode.FLAG_NOT_FOUND, reason=Reason.ERROR)
            case bool(on):
                return FlagResolutionDetails(on, reason=Reason.STATIC)
            case off_for:
                on = attributes.get("channel") not in off_for
                return FlagResolutionDetails(on, reason=Reason.TARGETING_MATCH)


def unready() -> FlagService:
    return FlagService(starts=False)


def failing() -> FlagService:
    raise RuntimeError("no flag key in the environment")
