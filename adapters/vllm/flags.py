"""Engine arguments as words of vLLM's command line."""

from collections.abc import Mapping

_FORMS = {"true": "--{}", "false": "--no-{}"}


def flags(arguments: Mapping[str, str]) -> list[str]:
    """The words for arguments by their names in Python; `true` and `false` are a switch's."""
    words: list[str] = []
    for name, value in arguments.items():
        option = name.replace("_", "-")
        form = _FORMS.get(value.lower())
        words += [form.format(option)] if form else [f"--{option}", value]
    return words
