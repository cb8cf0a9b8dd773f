from itertools import chain

import pytest

from server.commands.option_help import GROUPS, option
from server.settings import Settings


def test_every_option_is_in_one_group() -> None:
    assert sorted(chain.from_iterable(GROUPS.values())) == sorted(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "default", "metavar", "repeatable"),
    [
        ("model", None, "VALUE", False),
        ("api_key", None, "VALUE", True),
        ("port", "8000", "N", False),
        ("tool_timeout", None, "VALUE", False),
        ("store_ttl", "30", "NUMBER", False),
        ("parallel_calls", "false", "{true,false}", False),
        ("raw_reasoning", "show", "{show,hide}", False),
        ("constrain", None, "{always,needed,never}", False),
    ],
)
def test_an_option_is_described(
    name: str, default: str | None, metavar: str, repeatable: bool
) -> None:
    described = option(name)
    assert described.flag == f"--{name.replace('_', '-')}"
    assert described.variable == f"GPT_OSS_{name.upper()}"
    assert described.description == Settings.model_fields[name].description
    assert (described.default, described.metavar, described.repeatable) == (
        default,
        metavar,
        repeatable,
    )


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("max_body_bytes", "32 MiB"),
        ("max_file_bytes", "512 MiB"),
        ("max_owner_file_bytes", "10 GiB"),
        ("max_running", ""),
        ("port", ""),
    ],
)
def test_a_number_of_bytes_is_also_said_in_words(name: str, size: str) -> None:
    assert option(name).size == size
