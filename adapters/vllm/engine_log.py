"""Keeps grammars and sampled tokens out of the log of vLLM's engine.

vLLM loads this as one of its plugins (`vllm.general_plugins` in pyproject.toml), in each of its
processes. It logs the whole grammar, with the schemas of the request, where one cannot be followed.
"""

import logging

_LOGGERS = (
    "vllm.v1.structured_output",
    "vllm.v1.structured_output.backend_guidance",
    "vllm.v1.core.sched.scheduler",
)
_BEGINNINGS = ("LLMatcher error", "Unexpected: grammar")


class _Withhold(logging.Filter):
    """Cuts messages about grammars before what they quote."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if text.startswith(_BEGINNINGS):
            record.msg, record.args = text.partition("%")[0] + "(withheld)", ()
        return True


_withhold = _Withhold()


def withhold_content() -> None:
    """Filter the loggers of vLLM that quote requests. A second call changes nothing.

    Filters of loggers survive vLLM's configuration of the log, which comes later.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_withhold)
