"""What a request of either API compiles to: all that one sampling needs, and nothing of HTTP."""

from dataclasses import dataclass, field
from typing import Literal

from adapters.base import SamplingParams
from harmony.messages import Conversation, Effort


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as the client declared it, under the harmony recipient that calls it.

    recipient: `functions.NAME`. name, namespace: as the client knows the tool.
    """

    recipient: str
    name: str
    kind: Literal["function", "custom"] = "function"
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How tokens are drawn and when that ends, whatever the prompt is.

    max_tokens: an upper bound on sampled tokens, reasoning included; None is all the context.
    stop: up to four strings that end the answer; they are not part of it.
    top_logprobs: None for no logprobs, n >= 0 for the answer's with the n likeliest.
    grammar: llguidance Lark text that masks the sampling, None where it is free.
    affinity: requests with the same value share a prompt prefix; None where only the prompt tells.
    priority: lower is served earlier.
    own_grammar: whether a part of the grammar is the client's, a regex or Lark.
    prompt_param: the request's field that holds the prompt, named where that is too long.
    logprobs_param: the one that asks for logprobs, named where there are none.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int | None = None
    grammar: str | None = None
    affinity: str | None = None
    priority: int = 0
    own_grammar: bool = False
    prompt_param: str = "input"
    logprobs_param: str = "top_logprobs"


@dataclass(frozen=True, slots=True)
class RawPlan(SamplingPlan):
    """One sampling from ids as they are, at least one, of which nothing is read as harmony."""

    prompt: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnPlan(SamplingPlan):
    """One sampling, before it is rendered.

    Penalties and logit bias act on the final channel only (the server's rule for both APIs), the
    rest of `sampling` on every token; stop strings and logprobs are the final channel's too.
    effort: None means that the model is given no analysis channel.
    answer_grammar: what is left of `grammar` after the final header.
    reasoned_grammar: what is left of it after `<|start|>assistant` where nothing more may be
    reasoned; None where it lets nothing be reasoned anyway.
    parallel_calls: `<|call|>` does not end the sampling.
    prefill: tokens given after `<|start|>assistant`, a part or the whole of the first header.
    truncate: the oldest turns are dropped from a prompt that is too long.
    """

    conversation: Conversation
    tools: tuple[DeclaredTool, ...] = ()
    effort: Effort | None = Effort.MEDIUM
    answer_grammar: str | None = None
    reasoned_grammar: str | None = None
    parallel_calls: bool = False
    prefill: tuple[int, ...] = ()
    truncate: bool = False

    def tool(self, recipient: str) -> DeclaredTool:
        """The declared tool that a sampled recipient calls.

        One that was never declared is surfaced as a function: under its bare name where it stands
        in `functions`, else under the whole recipient.
        """
        for tool in self.tools:
            if tool.recipient == recipient:
                return tool
        return DeclaredTool(recipient, recipient.removeprefix("functions."))
