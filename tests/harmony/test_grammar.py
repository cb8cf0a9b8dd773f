from typing import Any

import pytest

from harmony.grammar import (
    AnyJson,
    AnyObject,
    Body,
    CallableTool,
    FreeText,
    GrammarSpec,
    InvalidConstraint,
    LarkText,
    RegexText,
    SchemaJson,
    after_hosted_call,
    answer_grammar,
    final_headers,
    reasoned_grammar,
    turn_grammar,
)
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import END
from tests.harmony.drawing import Mask, mask_tokenizer
from tests.harmony.parsing import messages
from tests.harmony.specs import TOOLS

AGAIN = "<|end|><|start|>assistant"
THOUGHT = f"<|channel|>analysis<|message|>Hm.{AGAIN}"
PREAMBLE = f"<|channel|>commentary<|message|>Let me see.{AGAIN}"
ANSWER = "<|channel|>final<|message|>Hi<|return|>"
CALLED = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"


def refused_at(grammar: str, completion: str) -> str | None:
    """The first token of a completion that the grammar forbids; None where it is all legal."""
    tokens = encode_with_control(completion)
    mask = Mask(grammar)
    place = mask.follow(tokens)
    if place is None:
        assert mask.matcher.is_stopped()
        return None
    return decode(tokens[place : place + 1])


@pytest.mark.parametrize(
    "completion",
    [
        ANSWER,
        "<|channel|>final <|constrain|>json<|message|>{}<|return|>",
        "<|channel|>final json<|message|>{}<|return|>",
        "<|channel|>final<|message|><|return|>",
        "<|channel|>final<|message|>né\n🎉 <|return|>",
        THOUGHT + ANSWER,
        THOUGHT + PREAMBLE + ANSWER,
        PREAMBLE + THOUGHT + CALLED,
        CALLED,
        "<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.f json<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.f code<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
        "<|channel|>analysis to=functions.f code<|message|>{}<|call|>",
        " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
        " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
        " to=browser.search<|channel|>analysis code<|message|>{}<|call|>",
        "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
        "<|channel|>analysis to=python<|message|>print(1)<|call|>",
        "<|channel|>commentary to=python <|constrain|>code<|message|>if x:\n\tprint(1)<|call|>",
        " to=python<|channel|>analysis code<|message|>print(1)<|call|>",
        '<|channel|>commentary to=functions.f<|message|>{"a": [1, 2],"b":{}}<|call|>',
        '<|channel|>commentary to=functions.weather<|message|>{"city":"Å","days":2}<|call|>',
        "<|channel|>commentary to=functions.sum<|message|>1+22<|call|>",
        "<|channel|>commentary to=functions.say<|message|><|call|>",
    ],
)
def test_what_gpt_oss_was_trained_to_write_is_legal(completion: str) -> None:
    assert refused_at(turn_grammar(GrammarSpec(TOOLS)), completion) is None


@pytest.mark.parametrize(
    ("completion", "token"),
    [
        ("Hello", "Hello"),
        ("<|message|>Hello", "<|message|>"),
        ("<|channel|>comment?", "?"),
        ("<|channel|>final<|channel|>", "<|channel|>"),
        ("<|channel|>final to=functions.f", " to"),
        ("<|channel|>final<|message|>Hi<|end|>", "<|end|>"),
        ("<|channel|>final<|message|>Hi<|call|>", "<|call|>"),
        ("<|channel|>final<|message|>Hi<|endoftext|>", "<|endoftext|>"),
        ("<|channel|>final<|message|>Hi<|reserved_200013|>", "<|reserved_200013|>"),
        (THOUGHT + "<|start|>", "<|start|>"),
        ("<|channel|>analysis<|message|>Hm.<|return|>", "<|return|>"),
        ("<|channel|>analysis<|message|>Hm.<|channel|>", "<|channel|>"),
        ("<|channel|>analysis<|message|>Hm.<|end|><|start|>user", "user"),
        ("<|channel|>commentary to=functions.g", ".g"),
        ("<|channel|>commentary to=functions.f to", " to"),
        (" to=functions.f<|channel|>commentary to", " to"),
        ("<|channel|>commentary to=functions.f<|channel|>", "<|channel|>"),
        ("<|channel|>commentary to=functions.f<|message|>{}<|end|>", "<|end|>"),
        ("<|channel|>commentary to=functions.f<|message|>[", "["),
        ('<|channel|>commentary to=functions.f<|message|>{"a":  1}', "  "),
        ('<|channel|>commentary to=functions.weather<|message|>{"city": ', ' "'),
        ("<|channel|>commentary to=functions.sum<|message|>1-", "-"),
        ("<|channel|>analysis to=python json", " json"),
        (" to=python<|channel|>analysis <|constrain|>json", "json"),
    ],
)
def test_nonsense_is_refused_where_it_begins(completion: str, token: str) -> None:
    refused = refused_at(turn_grammar(GrammarSpec(TOOLS)), completion)
    assert refused is not None
    assert refused.startswith(token) or token.startswith(refused)


def test_header_words_have_one_spelling() -> None:
    mask = Mask(turn_grammar(GrammarSpec(TOOLS)))
    assert mask.follow(encode_with_control("<|channel|>")) is None
    mask.fill()
    assert mask.allowed() == sorted([encode("commentary")[0], encode("analysis")[0], 17196])


def test_nothing_may_follow_the_end_of_a_turn() -> None:
    for completion in (ANSWER, CALLED):
        mask = Mask(turn_grammar(GrammarSpec(TOOLS)))
        assert mask.follow(encode_with_control(completion)) is None
        mask.fill()
        assert mask.allowed() == [mask_tokenizer().eos_token]


def test_without_tools_no_call_is_legal() -> None:
    grammar = turn_grammar(GrammarSpec())
    assert refused_at(grammar, THOUGHT + PREAMBLE + ANSWER) is None
    assert refused_at(grammar, "<|channel|>commentary to=functions.f") == " to"
    assert refused_at(grammar, " to=functions.f") == " to"


def test_a_required_call_leaves_no_way_around_it() -> None:
    grammar = turn_grammar(GrammarSpec(TOOLS[:1], call_required=True))
    assert refused_at(grammar, THOUGHT + PREAMBLE + CALLED) is None
    assert refused_at(grammar, THOUGHT + ANSWER) == "final"
    assert refused_at(grammar, CALLED.replace("functions.f", "python")) == "python"


def test_without_reasoning_analysis_is_for_calls_only() -> None:
    grammar = turn_grammar(GrammarSpec(TOOLS, reasoning=False))
    assert refused_at(grammar, PREAMBLE + ANSWER) is None
    assert refused_at(grammar, "<|channel|>analysis to=python<|message|>1<|call|>") is None
    assert refused_at(grammar, THOUGHT) == "<|message|>"
    assert refused_at(turn_grammar(GrammarSpec(reasoning_budget=0)), THOUGHT) == "analysis"


@pytest.mark.parametrize(
    ("completion", "token"),
    [
        (ANSWER, None),
        (THOUGHT + ANSWER, None),
        (THOUGHT + THOUGHT + "<|channel|>final<|message|>One\ntwo.\n<|return|>", None),
        (PREAMBLE + ANSWER, "comment"),
        (CALLED, "comment"),
        ("<|channel|>final<|message|><|return|>", "<|return|>"),
        ("<|channel|>final<|message|> <|return|>", " "),
        ("<|channel|>final<|message|>\n\n<|return|>", "\n\n"),
    ],
)
def test_without_preambles_there_is_reasoning_and_the_answer(
    completion: str, token: str | None
) -> None:
    spec = GrammarSpec(answer=RegexText(r"\S(.|\n)*"), preambles=False)
    assert refused_at(turn_grammar(spec), completion) == token


def test_without_preambles_and_reasoning_there_is_the_answer() -> None:
    grammar = turn_grammar(GrammarSpec(reasoning=False, preambles=False))
    assert refused_at(grammar, ANSWER) is None
    assert refused_at(grammar, THOUGHT + ANSWER) == "analysis"
    assert refused_at(grammar, PREAMBLE + ANSWER) == "comment"


def test_a_budget_without_preambles_is_for_one_message() -> None:
    grammar = turn_grammar(GrammarSpec(reasoning_budget=16, preambles=False))
    assert refused_at(grammar, THOUGHT + ANSWER) is None
    assert refused_at(grammar, THOUGHT + THOUGHT + ANSWER) == "analysis"


@pytest.mark.parametrize("budget", [1, 16])
def test_a_budget_closes_the_reasoning(budget: int) -> None:
    mask = Mask(turn_grammar(GrammarSpec(TOOLS, reasoning_budget=budget)))
    header = encode_with_control("<|channel|>analysis<|message|>")
    assert mask.follow([*header, *encode(" a" * budget)]) is None
    mask.fill()
    assert mask.allowed() == [END]
    assert mask.follow(encode_with_control(f"{AGAIN}<|channel|>")) is None
    assert mask.follow(encode_with_control("analysis<|message|>")) is not None


def test_a_budget_that_ends_within_a_character_lets_it_end() -> None:
    mask = Mask(turn_grammar(GrammarSpec(reasoning_budget=1)))
    pieces = encode("🫨")
    assert len(pieces) > 1
    assert mask.follow([*encode_with_control("<|channel|>analysis<|message|>"), pieces[0]]) is None
    mask.fill()
    assert mask.allowed()


def test_parallel_calls_go_on_until_the_turn_is_returned() -> None:
    grammar = turn_grammar(GrammarSpec(TOOLS, parallel_calls=True))
    calls = f"{THOUGHT}{CALLED}<|start|>assistant{CALLED}"
    assert refused_at(grammar, f"{calls}<|return|>") is None
    assert refused_at(grammar, f"{CALLED}<|start|>assistant<|channel|>final") == "final"
    assert all(not message.repairs for message in messages(f"{calls}<|return|>", ["functions.f"]))


def test_only_free_text_to_a_built_in_tool_is_code() -> None:
    code = [tool.recipient for tool in TOOLS if tool.takes_code]
    assert code == ["python"]


def test_after_a_hosted_call_no_further_call_is_required() -> None:
    spec = GrammarSpec(TOOLS, call_required=True)
    grammar = turn_grammar(after_hosted_call(spec))
    assert refused_at(grammar, THOUGHT + ANSWER) is None
    assert refused_at(grammar, THOUGHT + CALLED) is None


@pytest.mark.parametrize(("budget", "left"), [(None, None), (10, 7), (3, 0), (2, 0)])
def test_after_a_hosted_call_the_budget_is_what_is_left(
    budget: int | None, left: int | None
) -> None:
    spec = GrammarSpec(TOOLS, reasoning_budget=budget)
    assert after_hosted_call(spec, reasoned=3) == GrammarSpec(TOOLS, reasoning_budget=left)


def test_once_reasoning_has_ended_the_rest_of_the_turn_is_left() -> None:
    grammar = reasoned_grammar(GrammarSpec(TOOLS, reasoning_budget=16))
    assert grammar is not None
    assert refused_at(grammar, PREAMBLE + ANSWER) is None
    assert refused_at(grammar, CALLED) is None
    assert refused_at(grammar, THOUGHT) == "<|message|>"
    assert reasoned_grammar(GrammarSpec(TOOLS, reasoning=False)) is None


def test_the_answer_alone_is_the_final_message_in_its_form() -> None:
    spec = GrammarSpec(answer=RegexText("yes"), reasoning=False, preambles=False)
    grammar = turn_grammar(spec)
    assert refused_at(grammar, "<|channel|>final<|message|>yes<|return|>") is None
    assert refused_at(grammar, "<|channel|>final<|message|>no<|return|>") == "no"
    assert refused_at(grammar, "<|channel|>analysis") == "analysis"
    assert refused_at(grammar, "<|channel|>commentary") == "comment"
    assert refused_at(grammar, " to=python") == " to"


ANSWERS: dict[str, tuple[Body, list[str], list[str]]] = {
    "text": (FreeText(), ["", "a\n\nb", "{"], []),
    "object": (AnyObject(), ["{}", '{"a": 1, "b":[1,2]}'], ["[]", "1", " {}", '{"a" :1}']),
    "any JSON": (AnyJson(), ["1", '"x"', "[]", '{"a": [1, null]}'], ["", " 1", "x"]),
    "array": (AnyJson("array"), ["[]", '["a", {"b": 1}]'], ["{}", "1", "[ ]"]),
    "schema": (SchemaJson({"type": "array", "items": {"type": "null"}}), ["[null,null]"], ["[ ]"]),
    "empty schema": (SchemaJson({}), ["1", '{"a":[true]}'], [""]),
    "own style": (SchemaJson({"x-guidance": {"lenient": True}}), ["[1,2]"], ["[1, 2]"]),
    "regex": (RegexText(r"^[ab]+/\d\n?$"), ["ab/1", "a/1\n"], ["a1", "a/"]),
    "regex with a line": (RegexText("a\nb"), ["a\nb"], ["ab"]),
    "regex with CRLF": (RegexText("a\r\nb"), ["a\r\nb"], ["ab"]),
    "regex with comments": (RegexText("(?x)\n a # one/\n b\r\n\\ c"), ["ab c"], ["a", "a\nb c"]),
    "regex with an escaped line end": (RegexText("a\\\nb"), ["a\nb"], ["ab"]),
    "regex with a dollar": (RegexText(r"a\$"), ["a$"], ["a"]),
    "empty regex": (RegexText("^$"), [""], ["a"]),
    "lark": (
        LarkText('start: A+ // "{" <[200012]>\nA: "a" | /[b{]/ # }\n%ignore / /'),
        ["a b", "a{"],
        ["", "c"],
    ),
    "lark with import": (LarkText("%import common.INT\nstart: INT"), ["12"], ["a"]),
    "lark with schema": (
        LarkText('start: "x" %json {"type":"object","properties":{}}'),
        ["x{}"],
        ["{}"],
    ),
}


@pytest.mark.parametrize(("body", "legal", "illegal"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_has_the_form_that_was_asked_for(
    body: Body, legal: list[str], illegal: list[str]
) -> None:
    spec = GrammarSpec(answer=body)
    for text in legal:
        assert refused_at(answer_grammar(spec), f"{text}<|return|>") is None
        for header in final_headers():
            completion = f"{decode(header)}{text}<|return|>"
            assert refused_at(turn_grammar(spec), completion) is None
    for text in illegal:
        assert refused_at(answer_grammar(spec), f"{text}<|return|>") is not None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (RegexText("a\\"), "lone backslash"),
        (SchemaJson({"const": float("nan")}), "not JSON"),
        (SchemaJson({"const": b""}), "not JSON"),
        (LarkText("start: <[200012]>"), "special tokens"),
        (LarkText("start: <|call|>"), "special tokens"),
        (LarkText("start: A\nA: /a\nb/ <[200012]> /c/"), "special tokens"),
        (LarkText("start: @answer"), "other grammars"),
        (LarkText('%llguidance {"allow_invalid_utf8": true}\nstart: "a"'), "%llguidance"),
        (LarkText('start: A\nA: ~"a"'), "not operator"),
        (LarkText('start[stop=""]: /a*/'), "stop="),
        (LarkText('start: "a" }\nfinal: "b"\nrest: %json {'), "JSON"),
        (LarkText('start: "a" }\nfinal: "b"'), "braces"),
        (LarkText('start: "a" {'), "braces"),
        (LarkText('start: "a" }\nfinal: "b" {'), "braces"),
        (LarkText('start: A\n\nA: "a" ; "b"'), "at line 3$"),
    ],
)
def test_what_could_break_out_of_its_place_is_refused(body: Body, reason: str) -> None:
    with pytest.raises(InvalidConstraint, match=reason):
        answer_grammar(GrammarSpec(answer=body))


def test_a_schema_too_deep_to_write_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(InvalidConstraint):
        turn_grammar(GrammarSpec((CallableTool("functions.f", SchemaJson(schema)),)))


@pytest.mark.parametrize("way", [" to={}<|channel|>analysis", "<|channel|>commentary to={}"])
def test_any_of_very_many_tools_can_be_called(way: str) -> None:
    """Engines bound the rules that may go on at one place: at 2,000, where none says otherwise."""
    tools = tuple(CallableTool(f"functions.f_{number}") for number in range(1_000))
    for name in ("functions.f_0", "functions.f_1", "functions.f_10", "functions.f_999"):
        completion = f"{way.format(name)} json<|message|>{{}}<|call|>"
        assert refused_at(turn_grammar(GrammarSpec(tools)), completion) is None
    assert refused_at(turn_grammar(GrammarSpec(tools)), way.format("functions.f_1000")) is not None


def test_tools_with_one_name_in_another_have_their_own_arguments() -> None:
    numbers = CallableTool("functions.f.f", SchemaJson({"type": "integer"}))
    grammar = turn_grammar(GrammarSpec((CallableTool("functions.f"), numbers)))
    for completion in (
        "<|channel|>commentary to={}<|message|>",
        " to={}<|channel|>analysis<|message|>",
    ):
        for name, arguments, other in (("functions.f", "{}", "1"), ("functions.f.f", "1", "{}")):
            assert refused_at(grammar, f"{completion.format(name)}{arguments}<|call|>") is None
            assert refused_at(grammar, f"{completion.format(name)}{other}") is not None
