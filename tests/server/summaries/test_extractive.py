import pytest

from server.summaries.base import MOST_TITLE, Detail, SummaryFailed, SummaryRequest
from server.summaries.extractive import MOST_SENTENCE, ExtractiveSummariser

TEXT = "First, add the numbers.  Then divide! Is it right? Yes.\n\nSo the mean is 4."


async def summary(text: str, detail: Detail = "auto") -> str:
    return (await ExtractiveSummariser().summarise(SummaryRequest(text, detail))).text


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("concise", "First, add the numbers."),
        ("auto", "First, add the numbers. So the mean is 4."),
        ("detailed", "First, add the numbers. Is it right? Yes. So the mean is 4."),
    ],
)
async def test_it_takes_the_first_and_the_last_sentences(detail: Detail, expected: str) -> None:
    assert await summary(TEXT, detail) == f"**First, add the numbers**\n\n{expected}"


async def test_a_short_text_is_taken_as_it_is() -> None:
    assert await summary("Hm. 4.", "detailed") == "**Hm**\n\nHm. 4."


async def test_a_long_sentence_is_shortened_and_the_title_has_few_words() -> None:
    title, _, text = (await summary("word " * 500)).partition("\n\n")
    assert title == "**word word word word word word**"
    assert len(text) <= MOST_SENTENCE + 2
    assert text.endswith("word …")


async def test_sentences_of_languages_without_spaces_end_too() -> None:
    assert await summary("今日は。明日は？明後日。", "concise") == "**今日は。**\n\n今日は。"


async def test_the_title_is_short_in_languages_without_spaces_too() -> None:
    title, _, _ = (await summary("思" * 1000)).partition("\n\n")
    assert title == f"**{'思' * MOST_TITLE}**"


@pytest.mark.parametrize(
    "text", ["First **bold** claim.", "# First bold claim", "`First bold claim`"]
)
async def test_the_title_has_no_markdown_of_its_own(text: str) -> None:
    title, _, _ = (await summary(text)).partition("\n\n")
    assert title == "**First bold claim**"


async def test_the_title_ends_with_a_word() -> None:
    title, _, _ = (await summary("Pourquoi faire cela ? Encore.")).partition("\n\n")
    assert title == "**Pourquoi faire cela**"


async def test_a_text_without_words_has_no_summary() -> None:
    with pytest.raises(SummaryFailed):
        await summary(" \n\n ")
