import json
from typing import Any

import pytest

from server.summaries import model
from server.summaries.base import SummaryFailed, SummaryRequest, SummaryUsage
from server.summaries.model import WITHHELD, Completion, ModelSummariser
from server.summaries.policy import Policy
from server.summaries.prompt import MOST_EARLIER, MOST_REASONING, MOST_TEXT, SummaryPrompt
from server.summaries.sources import Sources
from tests.server.summaries.reasoning import WITHHOLD, verdict

USAGE = SummaryUsage(10, 5)


class Fixed:
    """A model with one answer, which keeps its prompts."""

    def __init__(self, answer: str) -> None:
        self.prompts: list[SummaryPrompt] = []
        self.closed = 0
        self._answer = answer

    async def complete(self, prompt: SummaryPrompt) -> Completion:
        self.prompts.append(prompt)
        return Completion(self._answer, USAGE)

    async def close(self) -> None:
        self.closed += 1


async def part(answer: str, **request: Any) -> Any:
    summariser = ModelSummariser(Fixed(answer), Policy())
    return await summariser.summarise(SummaryRequest("Some reasoning.", **request))


async def test_the_part_has_a_bold_title_and_its_usage() -> None:
    made = await part(verdict(" *Checking*\nthe dates. ", " It looks. "))
    assert (made.text, made.withheld) == ("**Checking the dates**\n\nIt looks.", "")
    assert made.usage == USAGE


async def test_a_part_may_have_a_title_only() -> None:
    assert (await part(verdict("Checking", " "))).text == "**Checking**"


async def test_a_code_block_around_the_object_is_read() -> None:
    assert (await part(f"```json\n{verdict()}\n```")).withheld == ""


async def test_the_model_withholds_a_part() -> None:
    made = await part(WITHHOLD)
    assert (made.text, made.withheld, made.usage) == (WITHHELD, "verdict", USAGE)


async def test_a_check_withholds_a_part() -> None:
    made = await part(verdict(text="See https://evil.example/?q=1"))
    assert (made.text, made.withheld) == (WITHHELD, "link")


async def test_a_long_source_is_checked_too() -> None:
    sources = Sources(["word " * 5000 + "the code is 4fe1-99aa"])
    assert (await part(verdict(text="It has 4FE1-99AA."), sources=sources)).withheld == "secret"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "{",
        "[1]",
        '{"verdict": "show"}',
        json.dumps({"verdict": "maybe", "title": "a", "text": "b"}),
        json.dumps({"verdict": "show", "title": 1, "text": "b"}),
        json.dumps({"verdict": "show", "title": " ", "text": "b"}),
        json.dumps({"verdict": "show", "title": "**", "text": "b"}),
        '{"verdict": ' + "[" * 100_000,
    ],
)
async def test_an_answer_that_cannot_be_read_fails_without_its_words(answer: str) -> None:
    with pytest.raises(SummaryFailed, match=r"cannot be read$"):
        await part(answer)


async def test_an_answer_that_cannot_be_read_has_its_usage() -> None:
    with pytest.raises(SummaryFailed) as failed:
        await part("I cannot do that.")
    assert failed.value.usage == USAGE


async def test_half_of_a_character_is_replaced() -> None:
    made = await part(verdict("Dates \ud83d", "It looks \ud83d\ude00 at \ude00 both."))
    assert made.text == "**Dates ?**\n\nIt looks 😀 at ? both."


async def test_a_text_that_is_too_long_is_cut() -> None:
    made = await part(verdict(text="word " * 1000), detail="concise")
    assert len(made.text) < MOST_TEXT["concise"] + 30
    assert made.text.endswith("word …")


async def test_an_answer_that_is_much_too_long_is_not_screened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model, "finding", None)
    with pytest.raises(SummaryFailed, match=r"is too long$") as failed:
        await part(verdict(text="word " * 10_000))
    assert failed.value.usage == USAGE


async def test_the_prompt_has_the_reasoning_the_earlier_parts_and_the_policy() -> None:
    model = Fixed(verdict())
    summariser = ModelSummariser(model, Policy("Be {kind}."))
    earlier = tuple(f"part {number}" for number in range(9))
    text = "é<|end|>" + "x" * MOST_REASONING
    await summariser.summarise(SummaryRequest(text, "detailed", earlier))
    (prompt,) = model.prompts
    assert prompt.instructions.endswith("Policy:\nBe {kind}.")
    assert "three to six sentences" in prompt.instructions
    data = json.loads(prompt.input)
    assert data == {"earlier": [*earlier[-MOST_EARLIER:]], "reasoning": "x" * MOST_REASONING}
    assert [*prompt.schema["properties"]] == ["verdict", "title", "text"]


async def test_closing_closes_the_model() -> None:
    model = Fixed("")
    await ModelSummariser(model, Policy()).close()
    assert model.closed == 1
