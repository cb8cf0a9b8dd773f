import pytest

from server.replay.arguments import MAX_COMPARED, same_arguments

SAME = {
    "not JSON": ("{", "{"),
    "white space": ('{"city":"Paris"}', '{ "city": "Paris" }\n'),
    "order": ('{"a":1,"b":[true,null]}', '{"b": [true, null], "a": 1}'),
    "escapes": ('{"a":"Zürich 🌍"}', '{"a": "Z\\u00fcrich \\ud83c\\udf0d"}'),
    "an integer of any size": ('{"a":123456789012345678901}', '{"a": 123456789012345678901}'),
    "spellings of a number": ('{"a":1.50,"b":1e3}', '{"a": 1.5, "b": 1000.0}'),
}


@pytest.mark.parametrize("texts", SAME.values(), ids=SAME)
def test_the_same_json_in_another_format_is_the_same(texts: tuple[str, str]) -> None:
    assert same_arguments(*texts)


OTHER = {
    "another text": ('{"a": "x"}', '{"a": "y"}'),
    "white space in a text": ('{"a": "x y"}', '{"a": "x  y"}'),
    "another name": ('{"a": 1}', '{"b": 1}'),
    "one more": ('{"a": 1}', '{"a": 1, "b": null}'),
    "the order of a list": ('{"a": [1, 2]}', '{"a": [2, 1]}'),
    "a float for an integer": ('{"a": 1}', '{"a": 1.0}'),
    "a boolean for an integer": ('{"a": 1}', '{"a": true}'),
    "a boolean for a float": ('{"a": 0.0}', '{"a": false}'),
    "a text for an integer": ('{"a": 1}', '{"a": "1"}'),
    "null for nothing": ('{"a": null}', '{"a": ""}'),
    "integers that one float stands for": (
        '{"a": 9007199254740993}',
        '{"a": 9007199254740992}',
    ),
    "numbers that one float stands for": ('{"a": 0.1}', '{"a": 0.10000000000000001}'),
    "numbers past the largest float": ('{"a": 1e400}', '{"a": 2e400}'),
    "an exponent past all bounds": ('{"a": 1e99999999999999999999}', '{"a": 1}'),
    "a repeated name": ('{"a": 1, "a": 2}', '{"a":2}'),
    "a constant that is not JSON": ('{"a": NaN}', '{"a":NaN}'),
    "one that is not JSON": ('{"a": 1', '{"a": 1}'),
    "both not JSON": ("{'a': 1}", "{'a':1}"),
    "nothing": ("", "{}"),
    "a list for an object": ("[]", "{}"),
    "another depth": ("[" * 100_000 + "]" * 100_000, "[" * 99_999 + "]" * 99_999),
}


@pytest.mark.parametrize("texts", OTHER.values(), ids=OTHER)
def test_texts_that_may_have_other_values_are_not_the_same(texts: tuple[str, str]) -> None:
    one, other = texts
    assert not same_arguments(one, other)
    assert not same_arguments(other, one)


def test_long_arguments_are_compared_by_their_characters() -> None:
    space = " " * MAX_COMPARED
    assert same_arguments("[1]" + space, "[1]" + space)
    assert not same_arguments("[1]", "[1]" + space)
