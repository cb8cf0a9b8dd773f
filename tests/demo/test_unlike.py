"""Requests that the model cannot serve."""

from random import Random

from demo.skills import unlike
from demo.skills.case import Draw
from demo.skills.words import Split
from harmony.messages import Effort, SystemContent
from harmony.tokenizer import encode


def drawn(index: int) -> Draw:
    return Draw(Random(f"unlike/{index}"), Split.TRAIN, Effort.LOW)


def test_pasted_texts_are_of_all_lengths_up_to_their_limit() -> None:
    lengths = [len(encode(unlike.pasted(drawn(index)))) for index in range(60)]
    assert min(lengths) < 200
    assert 800 < max(lengths) < 1500


def test_a_pasted_text_is_declined_whatever_hosted_tools_there_are() -> None:
    hosted = set()
    for index in range(200):
        case = unlike.case(drawn(index))
        content = case.history[0].content
        assert isinstance(content, SystemContent)
        hosted.add(tuple(tool.name for tool in content.tools))
        answer = str(case.turns[0].messages[-1].content)
        assert answer == (unlike.NO_TOOL if content.tools else unlike.REFUSAL)
    assert hosted == {(), ("browser",), ("python",), ("browser", "python")}
