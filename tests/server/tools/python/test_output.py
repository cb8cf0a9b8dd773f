"""What the model reads of a cell, and what the API shows."""

import orjson
import pytest

from server.tools.python.output import LEFT_OUT, NO_OUTPUT, CellOutput, cut_middle
from server.tools.python.sandbox import OutputImage, OutputText


def output(*events: OutputText | OutputImage) -> CellOutput:
    made = CellOutput()
    for event in events:
        made.add(event)
    return made


def test_pieces_of_a_stream_are_joined_as_they_came() -> None:
    made = output(
        OutputText("stdout", "a"), OutputText("stderr", "b\n"), OutputText("stdout", "c\n")
    )
    assert made.text() == "ab\nc"
    assert made.outputs() == [{"type": "logs", "logs": "ab\nc\n"}]


def test_values_and_tracebacks_have_lines_of_their_own() -> None:
    made = output(
        OutputText("stdout", "a"),
        OutputText("result", "1"),
        OutputText("stdout", "b"),
        OutputText("error", "ValueError"),
        OutputText("stdout", ""),
    )
    assert made.text() == "a\n1\nb\nValueError"


def test_a_note_has_a_line_of_its_own() -> None:
    assert output(OutputText("stdout", "a\n")).text("[note]") == "a\n[note]"
    assert output().text("[note]") == "[note]"
    assert output().text() == NO_OUTPUT


def test_an_image_separates_logs() -> None:
    made = output(
        OutputImage("image/png", b"1"), OutputText("result", "x"), OutputImage("image/jpeg", b"")
    )
    assert made.text() == "[image: image/png]\nx\n[image: image/jpeg]"
    assert [each["type"] for each in made.outputs()] == ["image", "logs", "image"]
    assert made.outputs()[0]["url"] == "data:image/png;base64,MQ=="


def test_outputs_grow_while_the_cell_runs() -> None:
    made = output(OutputImage("image/png", b"1"), OutputText("stdout", "a"))
    assert made.outputs()[1:] == [{"type": "logs", "logs": "a"}]
    made.add(OutputText("stdout", "b"))
    made.add(OutputImage("image/png", b"2"))
    assert [each["type"] for each in made.outputs()] == ["image", "logs", "image"]
    assert made.outputs()[1] == {"type": "logs", "logs": "ab"}


def test_an_output_that_cannot_grow_is_made_once() -> None:
    made = output(OutputImage("image/png", b"1"), OutputImage("image/png", b"2"))
    assert made.outputs()[0] is made.outputs()[0]


def test_what_is_no_utf8_is_escaped() -> None:
    made = output(OutputText("stdout", "a\udc80\udcffé\ud800\udbff"))
    assert made.text() == "a\\x80\\xffé\\ud800\\udbff"


def test_a_long_output_is_cut_in_the_middle() -> None:
    text = "a" * 100 + "b" * 300 + "c" * 100
    made = output(OutputText("stdout", text))
    cut = made.text(most=100)
    assert cut.startswith("a" * 50 + "\n")
    assert cut.endswith("\n" + "c" * 50)
    assert "400 bytes of output are left out" in cut
    assert made.outputs() == [{"type": "logs", "logs": text}]


def test_a_cut_keeps_whole_characters() -> None:
    cut = cut_middle("é" * 100, 21)
    assert (cut[:5], cut[5], cut[-5:], cut[-6]) == ("é" * 5, "\n", "é" * 5, "\n")


def test_what_fits_is_not_cut() -> None:
    assert cut_middle("é" * 50, 100) == "é" * 50
    assert cut_middle("x", 100) == "x"


NOTE = {"type": "logs", "logs": LEFT_OUT}


def test_outputs_that_are_too_much_are_replaced_by_a_note() -> None:
    made = CellOutput(20)
    made.add(OutputImage("image/png", bytes(9)))
    made.add(OutputText("stdout", "12345"))
    assert [each["type"] for each in made.outputs()] == ["image", "logs"]
    made.add(OutputText("stdout", "6789"))
    made.add(OutputImage("image/png", b"1"))
    assert made.outputs()[1:] == made.outputs()[1:] == [NOTE]
    assert made.text() == "[image: image/png]\n123456789\n[image: image/png]"


def test_what_outputs_take_is_left_to_no_other_cell() -> None:
    made = CellOutput(20)
    made.add(OutputText("stdout", "12345"))
    assert made.left == 15


@pytest.mark.parametrize("text", ["a", "é", "\U0001f600", "\0", "\x1f", "\n"])
def test_the_size_of_text_is_that_of_its_json(text: str) -> None:
    made = CellOutput(100)
    made.add(OutputText("stdout", text))
    assert abs(100 - made.left - len(orjson.dumps(text)[1:-1])) <= 1
