"""The events of the Responses API, and the messages of its WebSocket.

The order of the events: docs/responses.md.
"""

from typing import Any, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from server.openapi.common import ErrorObject, TokenLogprob
from server.openapi.hosted import HostedEvent
from server.openapi.places import InItem, InPart, Numbered
from server.openapi.responses import (
    OutputItem,
    OutputText,
    ReasoningText,
    Response,
    SummaryText,
)
from server.schemas.descriptions import described
from server.schemas.responses import CreateResponse


@described
class ResponseEvent(Numbered):
    """The response was created, queued or begun, or has ended: as it stands then."""

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
    response: Response


@described
class OutputItemEvent(Numbered):
    """An item begins, or is whole."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: int
    item: OutputItem


@described
class ContentPartEvent(InPart):
    """A part of an item begins, or is whole."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: OutputText | ReasoningText


@described
class TextDeltaEvent(InPart):
    """More text of a message."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: list[TokenLogprob]


@described
class TextDoneEvent(InPart):
    """The whole text of a message."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: list[TokenLogprob]


@described
class ReasoningDeltaEvent(InPart):
    """More of the chain of thought."""

    type: Literal["response.reasoning_text.delta"]
    delta: str


@described
class ReasoningDoneEvent(InPart):
    """The whole chain of thought of an item."""

    type: Literal["response.reasoning_text.done"]
    text: str


@described
class InSummary(InItem):
    """Where in the summary of an item of reasoning an event belongs."""

    summary_index: int


@described
class SummaryPartAddedEvent(InSummary):
    """A part of a summary begins."""

    type: Literal["response.reasoning_summary_part.added"]
    part: SummaryText


@described
class SummaryDeltaEvent(InSummary):
    """More text of a part of a summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    delta: str


@described
class SummaryDoneEvent(InSummary):
    """The whole text of a part of a summary."""

    type: Literal["response.reasoning_summary_text.done"]
    text: str


@described
class SummaryPartDoneEvent(InSummary):
    """A part of a summary is whole, or was not written in time."""

    type: Literal["response.reasoning_summary_part.done"]
    part: SummaryText
    status: NotRequired[Literal["incomplete"]]
    """Only where the part was not written in time."""


@described
class CallDeltaEvent(InItem):
    """More of a call's arguments, or of a custom tool's input."""

    type: Literal["response.function_call_arguments.delta", "response.custom_tool_call_input.delta"]
    delta: str


@described
class FunctionCallDoneEvent(InItem):
    """The whole arguments of a call."""

    type: Literal["response.function_call_arguments.done"]
    arguments: str
    name: str


@described
class CustomToolCallDoneEvent(InItem):
    """The whole input of a custom tool."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str


@described
class ErrorEvent(TypedDict):
    """The response failed; `response.failed` follows.

    Where the store of a response that is followed is lost, nothing follows: the response itself
    goes on. Nothing follows either where that response was deleted. The number is then that of the
    event before, after which a client can resume; without one there is none.
    """

    type: Literal["error"]
    sequence_number: NotRequired[int]
    code: str | None
    message: str
    param: str | None
    error: ErrorObject
    status: NotRequired[int]
    """On a WebSocket: the status that the error has over HTTP."""


ResponseStreamEvent = TypeAliasType(
    "ResponseStreamEvent",
    (
        ResponseEvent
        | OutputItemEvent
        | ContentPartEvent
        | TextDeltaEvent
        | TextDoneEvent
        | ReasoningDeltaEvent
        | ReasoningDoneEvent
        | SummaryPartAddedEvent
        | SummaryDeltaEvent
        | SummaryDoneEvent
        | SummaryPartDoneEvent
        | CallDeltaEvent
        | FunctionCallDoneEvent
        | CustomToolCallDoneEvent
        | HostedEvent
        | ErrorEvent
    ),
)


class ResponseCreate(CreateResponse):
    """A message of a WebSocket's client: a request. Not with `background` or `stream`."""

    type: Literal["response.create"]
    generate: bool | None = None
    """False: nothing is sampled; the next message continues the response."""
    stream_id: str | None = None
    """The lane of the request. Requests of different lanes are answered at the same time."""


@described
class SocketErrorObject(ErrorObject):
    """What is wrong, with the headers that the error has over HTTP."""

    headers: dict[str, str]


@described
class SocketError(TypedDict):
    """The error of a request that never began."""

    type: Literal["error"]
    status: int
    error: SocketErrorObject
    stream_id: NotRequired[str]
    """That of the request."""


@described
class SteerError(TypedDict):
    """Why an answer takes no more input."""

    type: Literal["invalid_request_error"]
    code: Literal["steering_not_supported"]
    message: str


@described
class Steer(TypedDict):
    """The input that was not used, and the response that it was for."""

    input: str | list[Any]
    previous_response_id: str


@described
class SteerFailed(Numbered):
    """The answer to a `response.steer`: an answer in progress takes no more input."""

    type: Literal["response.steer.failed"]
    error: SteerError
    steer: Steer


SocketEvent = TypeAliasType("SocketEvent", ResponseStreamEvent | SocketError | SteerFailed)
