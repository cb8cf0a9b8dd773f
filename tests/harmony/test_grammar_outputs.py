"""What is drawn from a grammar's masks is valid, and parses without a repair."""

import json
import random
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harmony.events import MessageEnded, Repair
from harmony.grammar import (
    AnyObject,
    Body,
    FreeText,
    GrammarSpec,
    LarkText,
    RegexText,
    SchemaJson,
    answer_grammar,
    turn_grammar,
)
from harmony.messages import Channel
from harmony.parser import ASSISTANT
from harmony.schemas import UnsupportedSchema, check_strict
from harmony.tokenizer import decode, encode
from harmony.vocab import CALL, RETURN
from tests.harmony.drawing import Mask, has_ended
from tests.harmony.parsing import messages
from tests.harmony.schemas.drawing import closed
from tests.harmony.specs import CITY, TOOLS

NAMES = st.text("abcdeé _", min_size=1, max_size=5)
SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.builds(lambda n: {"type": "string", "maxLength": n}, st.integers(0, 9)),
    st.sampled_from(
        [{"type": "string", "format": name} for name in ("ipv4", "ipv6", "uuid", "email")]
    ),
    st.just({"type": "string", "pattern": "^[a-z]{2,4}-[0-9]+$"}),
    st.builds(
        lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
        st.integers(-1000, 1000),
        st.integers(0, 1000),
    ),
    st.just({"type": "integer", "multipleOf": 3}),
    st.just({"type": "number", "exclusiveMinimum": 0, "maximum": 7.5}),
    st.just({"type": "boolean"}),
    st.just({"type": ["string", "null"]}),
    st.builds(
        lambda values: {"enum": values},
        st.lists(
            st.one_of(st.text(max_size=4), st.integers(-(2**53), 2**53), st.none()),
            min_size=1,
            max_size=4,
        ),
    ),
    st.builds(lambda value: {"const": value}, st.text(max_size=4)),
    st.just({"$ref": "#/$defs/point"}),
)


SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).map(lambda inner: closed(**inner)),
        st.builds(
            lambda items, least, more: {
                "type": "array",
                "items": items,
                "minItems": least,
                "maxItems": least + more,
            },
            inner,
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)
STRICT_SCHEMAS = st.builds(
    lambda properties: {
        **closed(**properties),
        "$defs": {"point": closed(x={"type": "integer"}, y={"type": "integer"})},
    },
    st.dictionaries(NAMES, SCHEMAS, max_size=3),
)
# An example takes long enough as it is.
WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
SCHEMA_EXAMPLES = 200
OUTPUTS_OF_EACH = 20
LONGEST = 300


@settings(max_examples=SCHEMA_EXAMPLES, phases=WITHOUT_SHRINKING)
@given(STRICT_SCHEMAS, st.integers(0, 1 << 30))
def test_outputs_drawn_under_a_strict_schema_are_valid(schema: dict[str, Any], seed: int) -> None:
    check_strict(schema)
    rng = random.Random(seed)
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    start = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(schema))))
    ended = 0
    for _ in range(OUTPUTS_OF_EACH):
        tokens = start.copy().draw(rng, 0.6, LONGEST)
        if has_ended(tokens):
            ended += 1
            validator.validate(json.loads(decode(tokens[:-1])))
    # Arrays in arrays may not end within `LONGEST` tokens.
    assert ended >= 0.2 * OUTPUTS_OF_EACH


# The draft 2020-12 cases of the JSON Schema Test Suite whose schemas are strict and compile, or are
# in OPEN (https://github.com/json-schema-org/JSON-Schema-Test-Suite, licence beside it).
SUITE = [
    json.loads(line)
    for line in Path(__file__).with_name("json_schema_suite.jsonl").read_text("utf-8").splitlines()
]
# Their objects are open though they name no type. Strict mode refuses them, other modes do not.
OPEN = {
    "additionalProperties can exist by itself",
    "additionalProperties with null valued instance properties",
    "patternProperties validates properties matching a regex",
    "patternProperties with null valued instance properties",
    "required properties whose names are Javascript object property names",
    "required with escaped characters",
}
# A constant object has one spelling, in the schema's order.
MISSED = "same object with different property order is valid"


def canonical(value: Any) -> Any:
    """`value` as a compact grammar spells it: whole numbers without a fraction."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [canonical(item) for item in value]
        case dict():
            return {name: canonical(item) for name, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize("group", SUITE, ids=lambda group: group["description"])
def test_an_enforced_schema_agrees_with_the_json_schema_suite(group: dict[str, Any]) -> None:
    schema = closed(value=group["schema"])
    is_open = group["description"].partition(": ")[2] in OPEN
    with pytest.raises(UnsupportedSchema) if is_open else nullcontext():
        check_strict(schema)
    start = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(schema))))
    for case in group["tests"]:
        text = json.dumps(
            {"value": canonical(case["data"])}, ensure_ascii=False, separators=(",", ":")
        )
        legal = start.copy().follow([*encode(text), RETURN]) is None
        assert legal == (case["valid"] and case["description"] != MISSED), case


SPECS = st.builds(
    lambda tools, answer, call_required, reasoning, budget: GrammarSpec(
        tools=tuple(tools),
        answer=answer,
        call_required=call_required and bool(tools),
        reasoning=reasoning,
        reasoning_budget=budget,
    ),
    st.lists(st.sampled_from(TOOLS), unique_by=lambda tool: tool.recipient, max_size=4),
    st.sampled_from([FreeText(), AnyObject(), SchemaJson(CITY), RegexText("yes|no")]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 1, 16]),
)


def check_body(body: Body, content: str) -> None:
    match body:
        case AnyObject():
            assert isinstance(json.loads(content), dict)
        case SchemaJson(schema):
            jsonschema.validate(json.loads(content), schema)
        case RegexText(pattern):
            assert re.fullmatch(pattern, content)
        case LarkText():
            assert content.replace("+", "").isdecimal()


def check_message(message: MessageEnded, spec: GrammarSpec) -> None:
    repairs = set(message.repairs)
    if spec.reasoning_budget is not None and message.header.channel is Channel.ANALYSIS:
        # A budget counts tokens, so it may run out within a character.
        repairs.discard(Repair.INVALID_UTF8)
    assert not repairs
    recipient = message.header.recipient
    if recipient is not None:
        [tool] = [tool for tool in spec.tools if tool.recipient == recipient]
        check_body(tool.body, message.content)
    elif message.header.channel is Channel.FINAL:
        assert not spec.call_required
        check_body(spec.answer, message.content)
    elif message.header.channel is Channel.ANALYSIS:
        assert spec.reasoning
        assert spec.reasoning_budget is None or message.body_tokens <= spec.reasoning_budget


@settings(max_examples=100, phases=WITHOUT_SHRINKING)
@given(SPECS, st.integers(0, 1 << 30))
def test_turns_drawn_from_a_grammar_parse_without_a_repair(spec: GrammarSpec, seed: int) -> None:
    rng = random.Random(seed)
    start = Mask(turn_grammar(spec))
    ended = 0
    for _ in range(12):
        tokens = start.copy().draw(rng, 0.4, LONGEST)
        if not has_ended(tokens):
            continue
        ended += 1
        parsed = messages(tokens, [tool.recipient for tool in spec.tools])
        for message in parsed:
            check_message(message, spec)
        assert [*ASSISTANT, *tokens] == [token for one in parsed for token in one.tokens]
        assert tokens[-1] == (RETURN if parsed[-1].header.recipient is None else CALL)
    # At least nine tenths of the turns end before they are cut off. That fewer than 4 of 12 do has
    # a probability of one in a million.
    assert ended >= 4
