"""Reasoning around the browser's calls and answers.

Before a display is judged, the words that are looked for are said again: so they are near, and the
model need not know at once whether a line holds them.
"""

from collections.abc import Sequence

from demo.skills.browser.quotes import Quote, held_words
from demo.skills.case import Thought


def searching(query: str) -> Thought:
    """Before a search."""
    return Thought(
        "Search.",
        f"The user asks about {query}. I do not know it for sure, so I search for these words.",
        f"The user asks a question, and its telling words are these: {query}. My own memory has "
        f"nothing sure about it, and I should not guess. The browser has a search, and a few "
        f"results are enough. I want a line that holds these words: {query}. So I search for "
        f"{query} now.",
    )


def found(quote: Quote, words: Sequence[str], cursor: int, other: int | None) -> Thought:
    """Before an answer with a line's words. other: a line that fits less, if there is one.

    The line is named, then its words that were looked for, then its text: each step copies.
    """
    text, line, asked = quote.text, quote.line, " ".join(words)
    held = " ".join(held_words(quote.whole, words)) or "what is meant"
    rest = f"Line {other} has less of it." if other is not None else "No other line is near it."
    return Thought(
        f"{asked}: line {line}.",
        f"{asked}: line {line} has {held}. It says {text}. No other line fits better to {asked}, "
        f"so I cite line {line}.",
        f"1. I look for these words in the display: {asked}. 2. {rest} 3. Line {line} has {held}. "
        f"4. The text of line {line} is {text}. 5. I compare this text with what was asked, "
        f"{asked}, and it fits. A line with fewer of the words is mostly about another thing, and "
        f"I do not need those. 6. So the answer to {asked} is in line {line}. 7. I say it with the "
        f"line's own words, ten at most: {text}. 8. Then I cite it with the cursor {cursor} and "
        f"the line {line}, and add nothing of my own about {asked}.",
    )


def nothing(words: str) -> Thought:
    """Before the answer that nothing was found."""
    return Thought(
        f"{words}: no line.",
        f"{words}: no line of the results is about that. They are about other things, so I say "
        f"that I found nothing about {words}.",
        f"1. I look for these words in the display: {words}. 2. No line of the results is about "
        f"that. 3. Some lines may share a word with it, but they are about other things. 4. I "
        f"should not make anything up, and there is nothing to cite for {words}. 5. Another search "
        f"for {words} would find the same pages. 6. So I tell the user in one short sentence that "
        f"I found nothing about {words}, and that is all.",
    )


def opening(url: str) -> Thought:
    """Before the page of a URL is opened."""
    return Thought(
        "Open it.",
        f"The user wants the page {url} to be read. It is there, so I open it and look.",
        f"The user names a page that I should read: {url}. That is its whole address, so I need no "
        f"search for it. The page {url} is the one that the question is about, and no other is "
        f"needed. Twenty lines of it are enough for a beginning, so I open {url} now and read what "
        f"it says.",
    )


def following(title: str, link: int) -> Thought:
    """Before a link of the results is opened."""
    return Thought(
        f"{title}: open link {link}.",
        f"{title}: the user wants this page to be read. It is link {link} of the results, so I "
        f"open it and look.",
        f"{title}: the user wants this page to be read. I looked for its title among the results, "
        f"and it is link {link}. The others are not needed. Twenty lines of the page are enough "
        f"for a beginning, as the answer often stands near the top. So I open link {link} now and "
        f"look for the words of the question there.",
    )


def onward(words: str, title: str, link: int) -> Thought:
    """Before the page of a result is opened, since the text that was found does not say it."""
    return Thought(
        f"{words}: not said, open link {link}.",
        f"{words}: no line of the results says it. But link {link} is {title}, and that page has "
        f"more lines than these, so I open link {link} and look for {words} there.",
        f"1. I look for these words in the display: {words}. 2. The results show only a part of "
        f"each page, and no line of them says it. 3. Link {link} has the title {title}, which is "
        f"what the question is about. 4. The other links are about other things, so I leave them. "
        f"5. Twenty lines of the page are enough for a beginning. 6. So I open link {link}, which "
        f"is {title}, and read its lines. 7. There I look once more for the same words: {words}.",
    )


def finding(words: str, pattern: str) -> Thought:
    """Before a search on a page."""
    return Thought(
        f"{words}: find {pattern}.",
        f"{words}: none of the lines in view says it, and the page goes on below. So I look for "
        f"{pattern} on it.",
        f"{words}: none of the lines in view says it. But the page has more lines than these, so "
        f"the answer may still be further down. It would take long to read all of it. The browser "
        f"can find a word on a page, so I choose a word of the question that is not in view. I let "
        f"it find {pattern} here, and then read the line with {pattern}.",
    )


def scrolling(words: str, line: int) -> Thought:
    """Before the next lines of a page."""
    return Thought(
        f"{words}: below.",
        f"{words}: none of the lines in view says it. The view ends before line {line}, and the "
        f"answer is further down.",
        f"{words}: none of the lines in view says it. The user says that the answer is further "
        f"down, and the view ends before line {line}. The page has more lines than these, as its "
        f"header says. So I go on reading at line {line} and ask for the next twenty lines of the "
        f"same page, as many as before.",
    )
