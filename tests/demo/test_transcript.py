"""Transcripts: what the server would send, and what of it is learned."""

import pytest

from demo.skills import SKILLS, draw_case
from demo.skills.words import Split
from demo.transcript import between, prompt, sampled, transcript
from harmony import vocab
from harmony.messages import Channel, Conversation, Effort, Role
from harmony.render import render
from harmony.tokenizer import decode


@pytest.mark.parametrize("skill", SKILLS)
def test_transcript_is_prompt_and_turns(skill: str) -> None:
    case = draw_case(1, 5, Split.TRAIN, skill)
    whole = transcript(case)
    expected = prompt(case)
    for number, turn in enumerate(case.turns):
        expected += between(case.turns[number - 1]) if number else []
        expected += sampled(turn)
    assert whole.ids == expected
    assert len(whole.learned) == len(whole.ids)


def test_second_turn_follows_what_the_server_renders() -> None:
    case = draw_case(1, 2, Split.TRAIN, "chain", Effort.LOW)
    first = case.turns[0]
    ids = prompt(case) + sampled(first) + between(first)
    rendered = render(Conversation((*case.history, *first.messages, *first.results)))
    tail = decode(rendered).split("<|call|>")[-1]
    assert decode(ids).endswith(tail)


def test_call_has_the_guides_header() -> None:
    case = draw_case(1, 0, Split.TRAIN, "call", Effort.LOW)
    name = case.turns[0].messages[-1].recipient
    assert f"<|channel|>commentary to={name} <|constrain|>json<|message|>" in decode(
        sampled(case.turns[0])
    )


def test_turns_are_learned_and_the_prompt_is_not() -> None:
    case = draw_case(1, 1, Split.TRAIN, "sums")
    whole = transcript(case)
    start = len(prompt(case))
    assert not any(whole.learned[:start])
    assert all(whole.learned[start:])
    assert whole.ids[-1] == vocab.RETURN


def test_past_answers_are_learned_but_not_what_ends_them() -> None:
    cases = (draw_case(1, i, Split.TRAIN, "recall") for i in range(50))
    case = next(c for c in cases if any(m.channel is Channel.FINAL for m in c.history))
    start = len(prompt(case))
    whole = transcript(case)
    learned = [t for t, on in zip(whole.ids[:start], whole.learned[:start], strict=True) if on]
    answers = [str(m.content) for m in case.history if m.channel is Channel.FINAL]
    assert decode(learned) == "".join(answers)
    assert vocab.END not in learned


def test_left_out_reasoning_is_not_learned_as_a_choice() -> None:
    case = draw_case(1, 1, Split.TRAIN, "unlike")
    whole = transcript(case)
    assert all(whole.learned[len(prompt(case)) :])
    assert not all(transcript(case, thinking=False).learned[len(prompt(case)) :])


def test_what_users_say_is_heard() -> None:
    case = draw_case(1, 3, Split.TRAIN, "everyday")
    whole = transcript(case)
    heard = [token for token, on in zip(whole.ids, whole.heard, strict=True) if on]
    messages = (*case.history, *(m for turn in case.turns for m in turn.results))
    assert decode(heard) == "".join(str(m.content) for m in messages if m.author.role is Role.USER)
