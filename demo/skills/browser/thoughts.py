"""Reasoning around the browser's calls and answers."""

from demo.skills.browser.quotes import Quote
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


def found(quote: Quote, query: str, cursor: int) -> Thought:
    """Before an answer with a line's words."""
    return Thought(
        "Found it.",
        f"About {query} the display says: {quote.text}. That is line {quote.line}, so I cite it.",
        f"I go through the lines of the display and look for the words of the question: {query}. "
        f"The other lines are about other things, but one says: {quote.text}. That is line "
        f"{quote.line}. It fits best to {query}. I answer with the line's own words, ten at most, "
        f"and then I cite it with the cursor {cursor} and the line {quote.line}.",
    )


def nothing(topic: str) -> Thought:
    """Before the answer that nothing was found."""
    return Thought(
        "Nothing.",
        f"No line of the results is about {topic}. They are about other things, so I say so.",
        f"I go through the lines of the results and look for {topic}. None of the lines is about "
        f"{topic}; they share some words with the question, but they are about other things. I "
        f"should not make anything up and cite nothing here. So I tell the user in one short "
        f"sentence that I found nothing about {topic}.",
    )


def opening(title: str) -> Thought:
    """Before a page is opened."""
    return Thought(
        "Open it.",
        f"The user wants the page {title} to be read. It is there, so I open it and look.",
        f"The user names a page that I should read: {title}. I look for it by its name and see "
        f"where it leads. The page {title} is the one that the question is about, and the others "
        f"are not needed. Twenty lines of it are enough for a beginning, so I open {title} now "
        f"and read what it says.",
    )


def finding(pattern: str) -> Thought:
    """Before a search on a page."""
    return Thought(
        "Find it.",
        f"These lines do not hold {pattern}, and the page goes on. I look for {pattern} on it.",
        f"I have read the lines of the page that are in view, and none of them holds the word "
        f"{pattern}. But the page has more lines than these, so the answer may still be further "
        f"down. It would take long to read all of it. The browser can find a word on a page, so "
        f"I let it find {pattern} here, and then read the line with {pattern}.",
    )


def scrolling(line: int) -> Thought:
    """Before the next lines of a page."""
    return Thought(
        "Scroll.",
        f"The view ends before line {line}, and the answer is further down. I go on there.",
        f"The user says that the answer is further down on the page. The lines in view do not "
        f"have it, and the view ends before line {line}. The page has more lines than these, as "
        f"its header says. So I go on reading at line {line} and ask for the next twenty lines of "
        f"the same page.",
    )
