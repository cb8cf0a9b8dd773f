"""Plans: requests of either API after compilation, independent of HTTP."""

from dataclasses import dataclass, field
from typing import Literal

from adapters.base import SamplingParams
from harmony.grammar import GrammarSpec, answer_grammar, reasoned_grammar, turn_grammar
from harmony.messages import Conversation, Effort
from harmony.tools import FUNCTIONS
from server.summaries.base import Detail
from server.tools.base import ToolDeclaration


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool that the request declares.

    recipient: the harmony recipient that calls it, such as `functions.NAME`. name, namespace: those
    of the client's declaration. hosted: the declaration of a tool that the server runs, None for
    one that the client runs.
    """

    recipient: str
    name: str
    kind: Literal["function", "custom", "hosted"] = "function"
    namespace: str | None = None
    hosted: ToolDeclaration | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """The grammars of a sampling, llguidance Lark texts that mask it, and how it begins.

    grammar: for the tokens after `prefill`, None where all tokens are allowed.
    answer_grammar: the part of `grammar` that follows the final header.
    reasoned_grammar: the grammar after `<|start|>assistant` once reasoning has ended; None where
    `grammar` permits no reasoning.
    prefill: tokens after `<|start|>assistant`: a part or the whole of the first header.
    parallel_calls: `<|call|>` does not end the sampling.
    own_grammar: whether a schema, regex or Lark grammar of the request is a part of `grammar`;
    those of hosted tools are not the request's.
    spec: what `grammar` was written from, None without a grammar. Later turns of the answer have
    grammars that are written from changed copies of it.
    """

    grammar: str | None = None
    answer_grammar: str | None = None
    reasoned_grammar: str | None = None
    prefill: tuple[int, ...] = ()
    parallel_calls: bool = False
    own_grammar: bool = False
    spec: GrammarSpec | None = None

    @classmethod
    def of(cls, spec: GrammarSpec) -> "Constraint":
        """With the grammars of a spec. Raises InvalidConstraint."""
        return cls(turn_grammar(spec), answer_grammar(spec), reasoned_grammar(spec), spec=spec)


NO_CONSTRAINT = Constraint()


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """The parameters of a sampling, without its prompt.

    max_tokens: limit on sampled tokens, reasoning included; None is the rest of the context.
    stop: up to four strings that end the answer; they are not part of it.
    top_logprobs: None for no logprobs; n >= 0 for logprobs of the answer with n alternatives.
    affinity: requests with the same value share a prompt prefix; None derives it from the prompt.
    cache_salt: only requests with the same value share cached prompts.
    priority: lower values are served first.
    prompt_param: the request field that holds the prompt, named in errors about its length.
    logprobs_param: the request field that asks for logprobs, named in errors about them.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int | None = None
    constraint: Constraint = NO_CONSTRAINT
    affinity: str | None = None
    cache_salt: str | None = None
    priority: int = 0
    prompt_param: str = "input"
    logprobs_param: str = "top_logprobs"


@dataclass(frozen=True, slots=True)
class RawPlan(SamplingPlan):
    """One sampling from token ids, at least one. Its output is not parsed as harmony."""

    prompt: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnPlan(SamplingPlan):
    """One sampling from a conversation that is not rendered yet.

    Penalties, logit bias, stop strings and logprobs apply to the final channel only, in both APIs.
    The other fields of `sampling` apply to every token.

    effort: None removes the analysis channel.
    truncate: drop the oldest exchanges of a prompt that is too long.
    max_tool_calls: the most hosted calls that run in the answer, >= 0; None for no limit but the
    server's.
    summary: how long the summaries of its reasoning are; None for no summaries.
    """

    conversation: Conversation
    tools: tuple[DeclaredTool, ...] = ()
    effort: Effort | None = Effort.MEDIUM
    truncate: bool = False
    max_tool_calls: int | None = None
    summary: Detail | None = None

    def tool(self, recipient: str) -> DeclaredTool:
        """The declared tool for a sampled recipient.

        An undeclared recipient becomes a function: under its bare name in the namespace
        `functions`, else under the whole recipient.
        """
        for tool in self.tools:
            if tool.recipient == recipient:
                return tool
        return DeclaredTool(recipient, recipient.removeprefix(f"{FUNCTIONS}."))
