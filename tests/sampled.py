"""Sampled messages, as a script has them after `<|start|>assistant`."""

import json
from typing import Any


def call(text: str, recipient: str = "python") -> str:
    return f"<|channel|>analysis to={recipient} code<|message|>{text}<|call|>"


def browse(function: str, **arguments: Any) -> str:
    return call(json.dumps(arguments), f"browser.{function}")


def final(text: str = "Done.") -> str:
    return f"<|channel|>final<|message|>{text}<|return|>"
