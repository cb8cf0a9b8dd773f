import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.errors import InvalidRequest
from server.http.bodies import json_scan
from server.http.bodies.json_scan import check, contains, replace_lone_surrogates
from server.schemas import limits

TEXTS = st.text(st.sampled_from('ab"\\[]{},:\n\N{GRINNING FACE}é')) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def walked(value: Any, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Kind and level of each value and name; an empty container counts as one with a leaf."""
    match value:
        case dict():
            yield "container", depth + 1
            yield from (("name", depth) for _ in value)
            for inner in value.values() or [None]:
                yield from walked(inner, depth + 1)
        case list():
            yield "container", depth + 1
            for inner in value or [None]:
                yield from walked(inner, depth + 1)
        case _:
            yield "leaf", depth


def refusal(text: bytes) -> InvalidRequest | None:
    try:
        check(text)
    except InvalidRequest as error:
        return error
    return None


def over(monkeypatch: pytest.MonkeyPatch, text: bytes, **limit: int) -> bool:
    """Whether the text is refused where only the limits given are in the way."""
    all_of_them = dict.fromkeys(vars(json_scan).keys() & vars(limits).keys(), 1 << 62)
    with monkeypatch.context() as patch:
        for name, most in {**all_of_them, **limit}.items():
            if name.startswith("MAX_"):
                patch.setattr(json_scan, name, most)
        return refusal(text) is not None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 16])
@given(value=VALUES)
@example(value=["\\", '\\"', "]" * 20, "[" * 20, {"[": {'"': ["\\"]}}])
def test_values_names_and_levels_are_counted_exactly(size: int, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    found = list(walked(value))
    counted = {
        "MAX_VALUES": len(found),
        "MAX_NAMES": sum(kind == "name" for kind, _ in found),
        "MAX_CONTAINERS": sum(kind == "container" for kind, _ in found),
        "MAX_DEPTH": max((depth for kind, depth in found if kind == "container"), default=0),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scan, "SLICE", size)
        # A scan that is not needed does not say more than that the text is within the limits.
        patch.setattr(json_scan, "_may_exceed_limits", lambda text: True)
        for limit, count in counted.items():
            assert not over(patch, text, **{limit: count}), limit
            assert over(patch, text, **{limit: count - 1}) or count == 0, limit


@given(value=VALUES)
@example(value=["\\", '\\"', "]" * 20, "[" * 20, {"[": {'"': ["\\"]}}])
@example(value=[["]" * 20, "}"], [{}, {}], []])
@example(value=[[[[]]]] * 10)
def test_the_levels_of_a_short_text_are_counted_exactly(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    levels = max((depth for kind, depth in walked(value) if kind == "container"), default=0)
    with pytest.MonkeyPatch.context() as patch:
        assert not over(patch, text, MAX_DEPTH=levels)
        assert over(patch, text, MAX_DEPTH=levels - 1) or levels == 0


def test_a_short_text_can_exceed_no_other_limit_than_that_of_levels() -> None:
    others = (limits.MAX_VALUES, limits.MAX_NAMES, limits.MAX_CONTAINERS, limits.MAX_WIDE_BYTES)
    assert min(others) > json_scan.SLICE


@pytest.mark.parametrize("name", ["lookup", 'a "quoted" [name]', "a\\"])
def test_many_tools_are_not_scanned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(json_scan, "_Scan")
    fields = {f"f{number}": {"type": "string", "enum": ["a"]} for number in range(10)}
    schema = {"type": "object", "properties": fields, "required": []}
    tool = {"type": "function", "name": name, "parameters": schema}
    text = json.dumps({"tools": [tool] * 10}).encode()
    assert text.count(b"{") > limits.MAX_DEPTH
    check(text)


@pytest.mark.parametrize("size", [1, 2, 5, 1 << 16])
@given(texts=st.lists(TEXTS, max_size=6), ascii_only=st.booleans())
def test_strings_beyond_ascii_are_measured(size: int, texts: list[str], ascii_only: bool) -> None:
    text = json.dumps(texts, ensure_ascii=ascii_only).encode()
    written = [json.dumps(each, ensure_ascii=ascii_only)[1:-1].encode() for each in texts]
    # As they are measured: escaped backslashes and quotes count for nothing.
    short = [each.replace(b"\\\\", b"").replace(b'\\"', b"") for each in written]
    wide = sum(len(each) for each in short if b"\\u" in each or not each.isascii())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scan, "SLICE", size)
        patch.setattr(json_scan, "_may_exceed_limits", lambda text: True)
        assert not over(patch, text, MAX_WIDE_BYTES=wide + size)
        if wide > size:
            assert over(patch, text, MAX_WIDE_BYTES=wide - size)


def values(count: int) -> bytes:
    return b"[" + b"1," * (count - 2) + b"1]"


def values_and_names(count: int) -> bytes:
    return b"{" + b'"a":1,' * 100_000 + b'"a":[' + b"1," * (count - 200_004) + b"1]}"


def containers(count: int) -> bytes:
    return b"[" + b"{}," * (count - 2) + b"{}]"


def names(count: int) -> bytes:
    return b"{" + b'"a":1,' * (count - 1) + b'"a":1}'


def levels(count: int) -> bytes:
    pairs, more = divmod(count, 2)
    return b"[" * more + b'[{"a":' * pairs + b"1" + b"}]" * pairs + b"]" * more


def wide(count: int) -> bytes:
    return b'["' + b"a" * (count - 2) + "é".encode() + b'"]'


@pytest.mark.parametrize(
    ("text_of", "most", "limit"),
    [
        (values, limits.MAX_VALUES, "values"),
        (values_and_names, limits.MAX_VALUES, "values"),
        (containers, limits.MAX_CONTAINERS, "arrays and objects"),
        (names, limits.MAX_NAMES, "members of objects"),
        (levels, limits.MAX_DEPTH, "levels of nesting"),
        (wide, limits.MAX_WIDE_BYTES, "bytes of text that is not ASCII"),
    ],
)
def test_a_text_over_a_limit_is_refused_by_its_name(
    text_of: Callable[[int], bytes], most: int, limit: str
) -> None:
    assert json.loads(text_of(most))
    assert refusal(text_of(most)) is None
    refused = refusal(text_of(most + 1))
    assert refused is not None
    assert refused.message == f"The request body has more than {most} {limit}."
    assert refused.code == "body_too_complex"


def test_a_string_without_end_is_measured_too() -> None:
    refused = refusal(b'["' + "é".encode() * (limits.MAX_WIDE_BYTES // 2 + 1))
    assert refused is not None
    assert "text that is not ASCII" in refused.message


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"199999," * (4 * 131_072 - 10) + b"1]",
        b'["' + b"QUJD" * 8_000_000 + '", "\N{GRINNING FACE}"]'.encode(),
        b'["' + b"One, two: [three] {four}. " * 1_000_000 + b'"]',
        b"[" + b'{"type":"message","content":[{"text":"Hi."}]},' * 32_000 + b"{}]",
    ],
    ids=["four contexts of token ids", "an image", "prose", "a long conversation"],
)
def test_what_clients_send_is_within_the_limits(text: bytes) -> None:
    assert refusal(text) is None


@pytest.mark.parametrize("text", [b"", b'"' * 999, b"\\" * 999, b"]}" * 999, b"[" * 100, b'"\\'])
def test_what_is_no_json_is_left_to_the_parser(text: bytes) -> None:
    assert refusal(text) is None


# Lone surrogates


def read(text: bytes) -> str:
    """As Python reads it, which takes lone surrogates; each becomes U+FFFD."""
    value: str = json.loads(text)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("size", [24, 29, 1 << 16])
@given(
    pieces=st.lists(
        st.sampled_from([r"\ud83d", r"\uDE00", r"\\", r"\"", r"\n", "u", "d83d", "a", r"\u00e9"]),
        max_size=40,
    )
)
@example(pieces=[r"\ud83d"] * 40)
@example(pieces=["a", *[r"\ud83d", r"\ude00"] * 20])
@example(pieces=[r"\\"] * 40)
def test_lone_surrogates_are_replaced_and_nothing_else_is(size: int, pieces: list[str]) -> None:
    text = f'"{"".join(pieces)}"'.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scan, "SLICE", size)
        result = replace_lone_surrogates(text)
    assert json.loads(result) == read(text)
    assert len(result) == len(text)


def test_bytes_that_are_no_json_stay_so() -> None:
    for text in (b'"\xff\xff\\ud800"', b"\\" * 5, b"\xff\\\\"):
        assert (b"\xff" in text) == (b"\xff" in replace_lone_surrogates(text))
        assert len(replace_lone_surrogates(text)) == len(text)


def test_parts_are_found_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_scan, "SLICE", 4)
    assert contains(b"aaa\\u00e9", rb"\u")
    assert contains(b"aaapart", b"part")
    assert not contains(b"aaa\\nuuu", rb"\u")
