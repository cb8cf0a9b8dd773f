"""Reasoning around the browser's calls and answers.

Before a display is judged, the words that are looked for are said again: so they are near, and the
model need not know at once whether a line holds them.
"""

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


def found(quote: Quote, words: str, cursor: int) -> Thought:
    """Before an answer with a line's words."""
    return Thought(
        f"{words}: line {quote.line}.",
        f"{words}: line {quote.line} says {quote.text}. No other line fits better, so I cite it.",
        f"{words}: line {quote.line} says {quote.text}. I went through the lines of the display "
        f"and looked for the words of the question. The other lines are about other things. Line "
        f"{quote.line} fits best to {words}. I answer with the line's own words, ten at most, and "
        f"then I cite it with the cursor {cursor} and the line {quote.line}.",
    )


def nothing(words: str) -> Thought:
    """Before the answer that nothing was found."""
    return Thought(
        f"{words}: no line.",
        f"{words}: no line of the results is about that. They are about other things, so I say so.",
        f"{words}: no line of the results is about that. I went through all of them and looked for "
        f"the words of the question. Some lines share a word with it, but they are about other "
        f"things. I should not make anything up, and there is nothing to cite. So I tell the user "
        f"in one short sentence that I found nothing about {words}.",
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
