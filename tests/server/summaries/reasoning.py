"""Chains of thought, and the scripts of engines that write them and summarise them."""

import json
from typing import Any

PROMPT_OF_SUMMARIES = "You write summaries of the reasoning"
"""What only the prompts for summaries contain."""

SENTENCE = "The user wants to know which of the two dates comes first in the calendar. "
PARAGRAPH = SENTENCE * 24 + "\n\n"
"""A paragraph of more than 300 tokens."""
SHORT = SENTENCE * 4
"""More than 40 tokens, and fewer than 300."""
START = "<|start|>assistant"


def thought(text: str, answer: str = "Done.") -> str:
    """A completion: reasoning, then an answer."""
    return (
        f"<|channel|>analysis<|message|>{text}<|end|>"
        f"{START}<|channel|>final<|message|>{answer}<|return|>"
    )


def verdict(title: str = "Comparing dates", text: str = "It looks at both.") -> str:
    """A summariser's answer."""
    return json.dumps({"verdict": "show", "title": title, "text": text})


WITHHOLD = json.dumps({"verdict": "withhold", "title": "", "text": ""})


def summaries(answer: str, **line: Any) -> dict[str, Any]:
    """The line of a script that answers the prompts for summaries."""
    completion = f"{answer}<|return|>"
    return {"prompt_contains": PROMPT_OF_SUMMARIES, "completion": completion, **line}
