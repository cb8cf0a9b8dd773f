"""Converts engine arguments to arguments of vLLM's command line."""

from collections.abc import Mapping

_FORMS = {"true": "--{}", "false": "--no-{}"}


def python_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in Python: `hf-token` becomes `hf_token`.

    What follows a dot is a field's own name, and stays.
    """
    parts = ((name.partition("."), value) for name, value in options.items())
    return {
        f"{argument.replace('-', '_')}{dot}{field}": value
        for (argument, dot, field), value in parts
    }


def flags(arguments: Mapping[str, str]) -> list[str]:
    """Command line arguments. The names are those in Python; `true` and `false` make a flag.

    After a dot follows a field of the argument (`speculative_config.method`), which has a value.
    """
    command: list[str] = []
    for name, value in arguments.items():
        argument, dot, field = name.partition(".")
        option = f"{argument.replace('_', '-')}{dot}{field}"
        form = None if dot else _FORMS.get(value.lower())
        command += [form.format(option)] if form else [f"--{option}", value]
    return command
