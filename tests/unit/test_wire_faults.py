import msgspec
import pytest

from tocsin.domain.intent import Intent
from tocsin.wire.faults import validation_fault

FIELDS = {"type": "t", "audience": {"users": ["a"]}, "payload": {}, "idempotency_key": "k"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({**FIELDS, "paylod": {}}, "Object contains unknown field paylod; did you mean payload?"),
        (
            {**FIELDS, "audience": {"user": ["a"]}},
            "Object contains unknown field user; did you mean users?",
        ),
        ({**FIELDS, "zzz": 1}, "Object contains unknown field zzz"),
    ],
)
def test_a_misspelt_field_of_an_intent_comes_with_the_nearest(fields: object, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(fields, Intent)

    assert validation_fault(caught.value).message == message
