"""Large bodies of clients with an API key: requests of up to 31 MB.

The memory bound of a row is ten times its body, and at least `LEAST_MEMORY`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from benchmarks.abuse.drawn import draw
from benchmarks.abuse.harness import Answers, Row, Target, post

SIZE = 31_000_000
LEAST_MEMORY = 50_000_000

ACCEPTED = {
    "unknown",
    "image",
    "file name",
    "name of an unknown field",
    "item of a conversation",
}
"""The fields whose text may be as long as a body."""

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
COMPLETIONS, CONVERSATIONS = "/v1/completions", "/v1/conversations"
USER = b'"messages":[{"role":"user","content":"hi"}]'


@dataclass(frozen=True)
class Body:
    """`one`, repeated `count` times between `start` and `end`. `#` in it becomes the number."""

    start: bytes
    one: bytes
    end: bytes
    count: int
    comma: bytes = b","

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.start) + (len(self.one) + len(self.comma)) * self.count + len(self.end)

    def text(self) -> bytes:
        """The bytes to send."""
        if b"#" in self.one:
            ones = (self.one.replace(b"#", str(number).encode()) for number in range(self.count))
            return self.start + self.comma.join(ones) + self.end
        return self.start + (self.one + self.comma) * (self.count - 1) + self.one + self.end


def filled(start: bytes, one: bytes, end: bytes, size: int = SIZE) -> Body:
    """A body of `size` bytes: `one` as often as it fits between `start` and `end`."""
    return Body(start, one, end, (size - len(start) - len(end)) // len(one), b"")


def listed(start: bytes, one: bytes, end: bytes, size: int = SIZE) -> Body:
    """As `filled`, with commas in between."""
    return Body(start, one, end, (size - len(start) - len(end)) // (len(one) + 1))


def row(name: str, path: str, body: Body, status: str = "400") -> Row:
    """One request with this body, and the status that it is to get: by default a refusal's."""

    async def attack(target: Target) -> Answers:
        return Answers({await post(target, path, body.text()): 1})

    memory = max(LEAST_MEMORY, 10 * body.size)
    return Row(f"body: {name}", attack, frozenset({status}), memory=memory)


DRAWN_SIZES = (300_000, 1_000_000, 3_000_000, 8_000_000, SIZE)


def drawn(seed: int, count: int) -> Row:
    """Requests drawn from the schemas, one after another."""

    async def attack(target: Target) -> Answers:
        source = Random(seed)
        answers: Counter[str] = Counter()
        for _ in range(count):
            one = draw(source)
            answers[await post(target, one.path, one.body(source.choice(DRAWN_SIZES)))] += 1
        return Answers(answers)

    name = f"body: {count} drawn from the schemas, {seed}"
    return Row(name, attack, frozenset({"200", "400", "404"}), memory=10 * SIZE)


def _rows() -> Iterator[Row]:
    yield from _found_first()
    yield from _strings()
    yield from _arrays()
    yield from _allowed()
    yield from (drawn(seed, 50) for seed in range(4))


def _found_first() -> Iterator[Row]:
    """The attacks that were found first."""
    chat = b'{"model":"scripted",' + USER
    text = b'{"input":"'
    yield row("items of a conversation, empty", CONVERSATIONS, listed(b'{"items":[', b"{}", b"]}"))
    yield row("input of empty items", RESPONSES, listed(b'{"input":[', b"{}", b"]}"))
    yield row(
        "include of numbers", RESPONSES, listed(b'{"input":"a","include":[', b"1", b"]}", 8_000_000)
    )
    yield row("line breaks and one lone surrogate", RESPONSES, filled(text, rb"\n", rb'\ud800"}'))
    yield row("unknown fields", RESPONSES, Body(b'{"input":"a",', b'"f#":1', b"}", 300_000))
    yield row(
        "messages of a conversation",
        CONVERSATIONS,
        listed(b'{"items":[', b'{"role":"user","content":"a"}', b"]}", 12_000_000),
    )
    yield row(
        "unknown field of empty objects", RESPONSES, listed(b'{"input":"a","x":[', b"{}", b"]}")
    )
    yield row("lone surrogates", RESPONSES, filled(text, rb"\ud800", b'"}'))
    yield row("detokenize 15 M ids", "/detokenize", listed(b'{"tokens":[', b"1", b"]}"))
    yield row("input of numbers", RESPONSES, listed(b'{"input":[', b"1", b"]}"))
    yield row(
        "logit_bias of wrong values",
        CHAT,
        Body(chat + b',"logit_bias":{', b'"#":"x"', b"}}", 1_000_000),
    )
    yield row(
        "a prompt of 15 M ids",
        COMPLETIONS,
        listed(b'{"model":"scripted","prompt":[', b"1", b"]}"),
    )
    calls = b'{"model":"scripted","messages":[{"role":"assistant","tool_calls":['
    call = b'{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}'
    yield row("tool calls", CHAT, Body(calls, call, b"]}]}", 200_000))
    yield row(
        "items",
        RESPONSES,
        listed(b'{"input":[', b'{"role":"user","content":"0123456789abcdefghijklmnop"}', b"]}"),
    )
    yield row("item type", RESPONSES, filled(b'{"input":[{"type":"', b"a", b'"}]}'))
    yield row("nesting", RESPONSES, filled(b'{"input":', b"[", b""))
    tool = b'{"input":"a","tools":[{"type":"function","name":"f","description":"'
    yield row("tool description", RESPONSES, filled(tool, b"a", b'"}]}'))
    yield row(
        "nested up to the limit", RESPONSES, listed(b'{"x":[', b"[" * 120 + b"]" * 120, b"]}")
    )


def _strings() -> Iterator[Row]:
    """Long strings in every field that takes one."""
    chat = b'{"model":"scripted",' + USER
    fields = {
        "instructions": (RESPONSES, b'{"input":"a","instructions":"'),
        "input": (RESPONSES, b'{"input":"'),
        "model": (RESPONSES, b'{"input":"a","model":"'),
        "user": (RESPONSES, b'{"input":"a","user":"'),
        "previous_response_id": (RESPONSES, b'{"input":"a","previous_response_id":"'),
        "conversation": (RESPONSES, b'{"input":"a","conversation":"'),
        "prompt_cache_key": (CHAT, chat + b',"prompt_cache_key":"'),
        "stop": (CHAT, chat + b',"stop":"'),
        "prompt": (COMPLETIONS, b'{"model":"scripted","prompt":"'),
        "tokenize": ("/tokenize", b'{"prompt":"'),
        "unknown": (RESPONSES, b'{"input":"a","x":"'),
    }
    for name, (path, start) in fields.items():
        status = "200" if name in ACCEPTED else "400"
        wide = filled(start, "éa漢".encode(), b'"}', 16_000_000)
        yield row(f"{name} of ASCII", path, filled(start, b"a b ", b'"}'), status)
        yield row(f"{name} of 16 bits", path, wide, status)
    nested = {
        "call id": (
            RESPONSES,
            b'{"input":[{"type":"function_call","name":"f","call_id":"',
            b'"}]}',
        ),
        "call name": (
            RESPONSES,
            b'{"input":[{"type":"function_call","call_id":"c","name":"',
            b'"}]}',
        ),
        "item id": (RESPONSES, b'{"input":[{"type":"message","role":"user","id":"', b'"}]}'),
        "role": (RESPONSES, b'{"input":[{"role":"', b'"}]}'),
        "image": (
            RESPONSES,
            b'{"input":[{"role":"user","content":[{"type":"input_image","image_url":"',
            b'"}]}]}',
        ),
        "file name": (
            RESPONSES,
            b'{"input":[{"role":"user","content":[{"type":"input_file","filename":"',
            b'"}]}]}',
        ),
        "seal": (RESPONSES, b'{"input":[{"type":"reasoning","encrypted_content":"', b'"}]}'),
        "metadata value": (RESPONSES, b'{"input":"a","metadata":{"a":"', b'"}}'),
        "metadata key": (RESPONSES, b'{"input":"a","metadata":{"', b'":"a"}}'),
        "tool name": (RESPONSES, b'{"input":"a","tools":[{"type":"function","name":"', b'"}]}'),
        "tool kind": (RESPONSES, b'{"input":"a","tools":[{"type":"', b'"}]}'),
        "tool choice": (RESPONSES, b'{"input":"a","tool_choice":{"type":"', b'"}}'),
        "schema pattern": (
            RESPONSES,
            b'{"input":"a","tools":[{"type":"function","name":"f","parameters":'
            b'{"type":"object","properties":{"a":{"type":"string","pattern":"',
            b'"}}}}]}',
        ),
        "logit_bias key": (CHAT, chat + b',"logit_bias":{"', b'":1}}'),
        "name of an unknown field": (RESPONSES, b'{"input":"a","', b'":1}'),
        "user name": (
            CHAT,
            b'{"model":"scripted","messages":[{"role":"user","content":"a","name":"',
            b'"}]}',
        ),
        "item of a conversation": (
            CONVERSATIONS,
            b'{"items":[{"role":"user","content":"',
            b'"}]}',
        ),
    }
    for name, (path, start, end) in nested.items():
        yield row(name, path, filled(start, b"abcd", end), "200" if name in ACCEPTED else "400")
    yield row("escaped line breaks", RESPONSES, filled(b'{"input":"', rb"\n", b'"}'))
    yield row("escaped quotes", RESPONSES, filled(b'{"input":"', rb"\"", b'"}'))
    yield row("a number of digits", RESPONSES, filled(b'{"input":', b"1", b"}"))
    yield row("a fraction of digits", RESPONSES, filled(b'{"input":0.', b"1", b"}"))
    yield row("white space", RESPONSES, filled(b'{"input":"a"', b" ", b"}"), "200")
    yield row("quotes", RESPONSES, filled(b"", b'"', b""))
    yield row("backslashes", RESPONSES, filled(b'"', b"\\", b""))


def _arrays() -> Iterator[Row]:
    """Arrays and objects beyond the limits."""
    chat = b'{"model":"scripted",' + USER
    function = b'{"type":"function","function":{"name":"f#","parameters":{"type":"object"}}}'
    yield row("tools", CHAT, Body(chat + b',"tools":[', function, b"]}", 300_000))
    yield row("metadata", RESPONSES, Body(b'{"input":"a","metadata":{', b'"#":1', b"}}", 900_000))
    part = b'{"type":"input_text","text":"a"}'
    parts = b'{"input":[{"role":"user","content":['
    yield row("parts", RESPONSES, listed(parts, part, b"]}]}"))
    yield row("equal names", RESPONSES, listed(b'{"input":"a",', b'"x":1', b"}"))
    yield row("different names", RESPONSES, Body(b'{"x":{', b'"#":1', b"}}", 2_000_000))
    yield row("prompts", COMPLETIONS, listed(b'{"model":"scripted","prompt":[', b'"a"', b"]}"))
    yield row("floats", RESPONSES, listed(b'{"x":[', b"1.2345678901234567e-7", b"]}"))


def _allowed() -> Iterator[Row]:
    """As much as the limits allow, of what costs most.

    Where that is a prompt longer than the context, it is refused while it is rendered.
    """
    values = 500_000
    chat = b'{"model":"scripted",'
    yield row(
        "floats within the limit",
        RESPONSES,
        listed(b'{"input":"a","x":[', b"1.2345678901234567e-7", b"]}", 22 * values),
        "200",
    )
    yield row(
        "strings within the limit",
        RESPONSES,
        Body(b'{"input":"a","x":[', b'"some text of a line #"', b"]}", values),
        "200",
    )
    yield row(
        "names within the limit",
        RESPONSES,
        Body(b'{"input":"a","x":{', b'"#":1', b"}}", 130_000),
        "200",
    )
    yield row(
        "objects within the limit",
        RESPONSES,
        listed(b'{"input":"a","x":[', b'{"a":1}', b"]}", 8 * 130_000),
        "200",
    )
    yield row(
        "values of items within the limit",
        CONVERSATIONS,
        listed(b'{"items":[{"role":"user","content":"a","x":[', b'{"a":1}', b"]}]}", 8 * 120_000),
        "200",
    )
    yield row(
        "values of a stored input within the limit",
        RESPONSES,
        listed(b'{"input":[{"role":"user","content":"a","x":[', b'{"a":1}', b"]}]}", 8 * 120_000),
        "200",
    )
    yield row(
        "ids within the limit",
        "/detokenize",
        listed(b'{"tokens":[', b"123456", b"]}", 7 * 260_000),
        "200",
    )
    yield row(
        "long tokens", "/detokenize", listed(b'{"tokens":[', b"197285", b"]}", 7 * 260_000), "200"
    )
    ids = b"[" + b"1," * 4000 + b"1]"
    yield row(
        "prompts of ids",
        COMPLETIONS,
        Body(b'{"model":"scripted","prompt":[', ids, b"]}", 128),
        "200",
    )
    yield row(
        "messages within the limit",
        CHAT,
        listed(chat + b'"messages":[', b'{"role":"user","content":"a"}', b"]}", 30 * 32_000),
    )
    yield row(
        "items within the limit",
        RESPONSES,
        listed(b'{"input":[', b'{"role":"user","content":"a"}', b"]}", 30 * 32_000),
    )
    truncated = row(
        "items within the limit, truncated",
        RESPONSES,
        listed(
            b'{"truncation":"auto","input":[', b'{"role":"user","content":"a"}', b"]}", 30 * 32_000
        ),
        "200",
    )
    # The answer is stored, with its 32,000 items.
    yield replace(truncated, memory=80_000_000)
    tool = b'{"type":"function","name":"f#","parameters":{"type":"object","properties":{}}}'
    yield row(
        "tools within the limit",
        RESPONSES,
        Body(b'{"input":"a","tools":[', tool, b"]}", 4_000),
        "200",
    )
    yield row(
        "properties within the limit",
        RESPONSES,
        Body(
            b'{"input":"a","tools":[{"type":"function","name":"f","parameters":'
            b'{"type":"object","properties":{',
            b'"p#":{"type":"string","description":"what it is"}',
            b"}}}]}",
            15_000,
        ),
    )
    yield row(
        "count of a long input",
        "/v1/responses/input_tokens",
        filled(b'{"input":"', b"a b ", b'"}'),
        "200",
    )
    yield row(
        "compact a long input",
        "/v1/responses/compact",
        listed(
            b'{"model":"scripted","input":[',
            b'{"role":"user","content":"a"}',
            b"]}",
            30 * 32_000,
        ),
    )


ROWS: tuple[Row, ...] = tuple(_rows())
