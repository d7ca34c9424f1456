"""Whatever stands in a file, reading it ends in a value or in faults."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.catalog.declaration import read_declarations
from tocsin.catalog.examples import example_payloads
from tocsin.catalog.schema import Schema, schema_violations
from tocsin.catalog.source import read_source
from tocsin.catalog.templates.jinja import CompiledTemplate, TemplateSource, compile_template
from tocsin.domain.faults import Fault

yaml_like = st.one_of(st.text(), st.text(alphabet="ab:-[]{}&*!#|>'\"%@,?~ \n\t01.e\u2028\ufeff", max_size=60))
JINJA_WORDS = (
    "{{ }} {% %} {# #} {%- -%} a if endif for in endfor set block endblock macro call raw endraw filter "
    "| ' ( ) [ ] . 1 / - ~ is not , : loop"
)
jinja_like = st.lists(st.sampled_from([*JINJA_WORDS.split(), "\n"]), max_size=16).map(" ".join)

leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null", ["string", "null"]]),
        "minLength": st.integers(0, 20),
        "maxLength": st.integers(0, 20),
        "minimum": st.integers(-9, 9),
        "exclusiveMaximum": st.integers(-9, 9),
        "multipleOf": st.integers(1, 5),
        "enum": st.lists(st.integers(), min_size=1, unique=True),
        "format": st.sampled_from(
            ["date-time", "email", "uuid", "uri", "date", "time", "ipv4", "ipv6", "duration"]
        ),
    },
)
schemas = st.recursive(
    st.one_of(leaves, st.booleans()),
    lambda inner: st.one_of(
        st.builds(
            lambda fields, required: {"type": "object", "properties": fields, "required": sorted(required)},
            st.dictionaries(st.sampled_from("abc"), inner),
            st.sets(st.sampled_from("abcd")),
        ),
        st.builds(
            lambda items, fewest: {"type": "array", "items": items, "minItems": fewest},
            inner,
            st.integers(0, 2),
        ),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=8,
).filter(lambda schema: isinstance(schema, dict))


@given(yaml_like)
def test_any_text_is_read_as_yaml_or_is_a_fault(text: str) -> None:
    source = read_source("types/any.yaml", text)
    declared, faults = read_declarations(source)
    assert declared == []
    assert faults
    lines = len(text.splitlines()) + 1
    assert all(1 <= int(fault.field.rpartition(":")[2]) <= lines for fault in faults)


@given(jinja_like)
def test_any_text_is_a_template_or_a_fault(text: str) -> None:
    compiled = compile_template(TemplateSource("templates/any.j2", text))
    assert isinstance(compiled, CompiledTemplate | Fault)
    if isinstance(compiled, Fault):
        assert 1 <= int(compiled.field.rpartition(":")[2]) <= text.count("\n") + 1


@given(schemas)
def test_examples_can_be_sought_for_any_schema(schema: dict[str, object]) -> None:
    assert schema_violations(schema) == []
    compiled = Schema(schema)
    for example in example_payloads(schema):
        assert compiled.accepts(example) == (compiled.violations(example) == [])
