from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.generation.stop_strings import StopStrings

STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)
TEXT = st.text("abcd", max_size=20)


def read(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    """All that comes out of the pieces, as one text, and whether it was stopped."""
    matcher = StopStrings(stops)
    sent = ""
    for piece in pieces:
        text, stopped = matcher.push(piece)
        sent += text
        if stopped:
            return sent, True
    return sent + matcher.flush(), False


def first_complete(stops: list[str], text: str) -> tuple[str, bool]:
    """The same by definition: the shortest prefix of the text that ends in a stop string."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


def test_without_stop_strings_nothing_is_withheld() -> None:
    assert StopStrings(()).push("abc") == ("abc", False)


def test_text_without_a_stop_string_is_passed_on_at_once() -> None:
    assert StopStrings(["xyz"]).push("abc") == ("abc", False)


def test_a_stop_string_and_what_follows_it_are_cut_off() -> None:
    assert StopStrings(["<end>"]).push("before<end>after") == ("before", True)


def test_a_stop_string_may_be_all_the_text() -> None:
    assert StopStrings(["END"]).push("END") == ("", True)


def test_what_may_become_a_stop_string_is_withheld() -> None:
    stops = StopStrings(["<end>"])
    assert stops.push("a<en") == ("a", False)
    assert stops.push("d") == ("", False)
    assert stops.push(">") == ("", True)


def test_withheld_text_is_sent_once_it_cannot_become_a_stop_string() -> None:
    stops = StopStrings(["<end>"])
    assert stops.push("a<e") == ("a", False)
    assert stops.push("x<") == ("<ex", False)
    assert stops.flush() == "<"
    assert stops.flush() == ""


def test_the_stop_string_that_is_complete_first_wins() -> None:
    assert StopStrings(["abcd", "bc"]).push("xabcd") == ("xa", True)


def test_of_two_that_end_together_the_longer_one_is_cut_off() -> None:
    assert StopStrings(["bc", "abc"]).push("xabc") == ("x", True)


@pytest.mark.parametrize("stop", ["é", "ß→", "終わり", "👩\u200d🚀"])
def test_a_stop_string_of_any_script_is_found_across_pieces(stop: str) -> None:
    assert read([stop], [*f"text {stop} more"]) == ("text ", True)


@given(STOPS, TEXT, st.lists(st.integers(0, 20)))
def test_how_the_text_is_cut_makes_no_difference(
    stops: list[str], text: str, cuts: list[int]
) -> None:
    borders = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(borders)]
    assert read(stops, pieces) == first_complete(stops, text)


@given(STOPS, TEXT)
def test_only_the_beginning_of_a_stop_string_is_withheld(stops: list[str], text: str) -> None:
    matcher = StopStrings(stops)
    sent, stopped = matcher.push(text)
    if not stopped:
        withheld = matcher.flush()
        assert sent + withheld == text
        assert not withheld or any(stop.startswith(withheld) for stop in stops)
