from harmony.tokenizer import encode_with_control
from server.web.parsing import parse


def test_a_completion_is_read_with_its_repairs() -> None:
    tokens = encode_with_control("<|channel|>analysis<|message|>Hm.<|end|>final<|message|>Yes.")
    first, second = parse(tokens)
    assert (first["channel"], first["content"], first["repairs"]) == ("analysis", "Hm.", [])
    assert first["body"] == (3, 5)
    assert "missing_start" in second["repairs"]
    assert not second["complete"]


def test_whole_messages_begin_with_start() -> None:
    text = "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    (message,) = parse(encode_with_control(text))
    assert (message["content"], message["repairs"]) == ("Yes.", [])


def test_a_declared_tool_is_recognised() -> None:
    tokens = encode_with_control("<|channel|>commentary to=f<|message|>{}<|call|>")
    (message,) = parse(tokens, ["functions.f"])
    assert message["recipient"] == "functions.f"


def test_nothing_has_no_messages() -> None:
    assert parse([]) == []
