"""What the log of vLLM's engine leaves out. It needs no vLLM."""

import logging
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from adapters.vllm.engine_log import _LOGGERS, _withhold, withhold_content

GROUP = "vllm.general_plugins"


@pytest.fixture(autouse=True)
def filtered() -> Iterator[None]:
    withhold_content()
    yield
    for name in _LOGGERS:
        logging.getLogger(name).removeFilter(_withhold)


@pytest.mark.parametrize(
    ("name", "message", "written"),
    [
        (
            "vllm.v1.structured_output.backend_guidance",
            "LLMatcher error: %s",
            "LLMatcher error: (withheld)",
        ),
        (
            "vllm.v1.core.sched.scheduler",
            "Unexpected: grammar rejected tokens %s. Terminating request.",
            "Unexpected: grammar rejected tokens (withheld)",
        ),
        (
            "vllm.v1.structured_output",
            "Unexpected: grammar terminated or rejected draft token %s",
            "Unexpected: grammar terminated or rejected draft token (withheld)",
        ),
        ("vllm.v1.core.sched.scheduler", "Scheduled %s", "Scheduled secret"),
    ],
)
def test_messages_about_grammars_quote_nothing(
    caplog: pytest.LogCaptureFixture, name: str, message: str, written: str
) -> None:
    logging.getLogger(name).warning(message, "secret")
    assert caplog.messages == [written]


def test_vllm_finds_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"][GROUP].items()
    assert EntryPoint(name, value, GROUP).load() is withhold_content
