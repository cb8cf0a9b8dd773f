"""Web searches of clients, against real server processes with the default search."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agents import Agent, ModelSettings, Runner, WebSearchTool
from langchain_openai import ChatOpenAI
from openai import OpenAI
from openai.types.responses import Response
from pydantic import SecretStr

from tests.clients.agents_sdk import run_config
from tests.clients.conftest import RunScript
from tests.sampled import browse, final

MODEL = "gpt-oss-test"
TOOL: Any = {"type": "web_search"}
SOURCES: Any = ["web_search_call.action.sources"]
QUESTION: Any = [{"role": "user", "content": "Where?"}]

QUERY = "web search provider SearXNG"
PAGE = "file-search://gpt-oss-server/browser.md"
LINK = f"([browser.md]({PAGE}))"
TEXT = f"𝒳 It searches a folder {LINK}."
START = TEXT.index(LINK)
CITATION = {
    "start_index": START,
    "end_index": START + len(LINK),
    "title": "Web search",
    "url": PAGE,
}
RESPONSES_CITATION = {"type": "url_citation", **CITATION}
CHAT_CITATION = {"type": "url_citation", "url_citation": CITATION}


SCRIPT = [
    {
        "prompt_contains": json.dumps({"id": PAGE}),
        "completion": final("Here【0†L0-L2】 and there【0†L0-L2】."),
    },
    {"prompt_contains": "Twice?", "completion": browse("open", id=PAGE)},
    {"prompt_contains": "[1] ", "completion": final("𝒳 It searches a folder【1†L0-L2】.")},
    {"prompt_contains": "[0] ", "completion": browse("open", id=0)},
    {"prompt_contains": "Where?", "completion": browse("search", query=QUERY)},
]


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", MODEL, "--hosted-tools", "browser")


# The SDK in Python


def check(output: Sequence[Any], *, sources: bool) -> None:
    """Check an answer to `Where?`."""
    search, opened, message = (item.to_dict() for item in output)
    assert {item["status"] for item in (search, opened, message)} == {"completed"}
    assert (search["type"], opened["type"]) == ("web_search_call", "web_search_call")
    action = search["action"]
    found = action.pop("sources", None)
    assert action == {"type": "search", "query": QUERY, "queries": [QUERY]}
    assert (found is not None) == sources
    assert not sources or found[0] == {"type": "url", "url": PAGE}
    assert opened["action"] == {"type": "open_page", "url": PAGE}
    (part,) = message["content"]
    assert (part["text"], part["annotations"]) == (TEXT, [RESPONSES_CITATION])


@pytest.mark.parametrize("include", [[], SOURCES])
def test_a_response_cites_the_packaged_documentation(client: OpenAI, include: Any) -> None:
    made = client.responses.create(model=MODEL, input="Where?", tools=[TOOL], include=include)
    check(made.output, sources=bool(include))
    assert client.responses.retrieve(made.id) == made


def test_a_streamed_response_has_the_events_of_the_api(client: OpenAI) -> None:
    stream = client.responses.create(
        model=MODEL, input="Where?", tools=[TOOL], include=SOURCES, stream=True
    )
    events: list[dict[str, Any]] = [event.to_dict() for event in stream]
    made = Response.model_validate(events[-1]["response"])
    check(made.output, sources=True)
    assert client.responses.retrieve(made.id) == made
    call = "response.web_search_call."
    for index in (0, 1):
        own = [each["type"] for each in events if each.get("output_index") == index]
        shown = [f"{call}in_progress", f"{call}searching", f"{call}completed"]
        assert own == ["response.output_item.added", *shown, "response.output_item.done"]
    (added,) = [each for each in events if each["type"].endswith(".annotation.added")]
    assert (added["annotation_index"], added["annotation"]) == (0, RESPONSES_CITATION)
    previous = events[events.index(added) - 1]
    assert (previous["type"], previous["delta"]) == ("response.output_text.delta", LINK)
    deltas = [each["delta"] for each in events if each["type"] == "response.output_text.delta"]
    (done,) = [each for each in events if each["type"] == "response.output_text.done"]
    assert "".join(deltas) == done["text"] == TEXT


def test_a_chat_completion_with_web_search_options(client: OpenAI) -> None:
    made = client.chat.completions.create(model=MODEL, messages=QUESTION, web_search_options={})
    message = made.choices[0].message
    assert message.content == TEXT
    assert message.annotations is not None
    assert [each.to_dict() for each in message.annotations] == [CHAT_CITATION]


def test_a_streamed_chat_completion_with_web_search_options(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, web_search_options={}, stream=True
    )
    deltas: list[dict[str, Any]] = [
        choice.delta.to_dict() for chunk in stream for choice in chunk.choices
    ]
    assert "".join(delta.get("content") or "" for delta in deltas) == TEXT
    assert [each for each in deltas if "annotations" in each] == [{"annotations": [CHAT_CITATION]}]


def test_the_sdk_joins_a_stream_with_two_citations(client: OpenAI) -> None:
    question: Any = [{"role": "user", "content": "Twice?"}]
    with client.chat.completions.stream(
        model=MODEL, messages=question, extra_body={"web_search_options": {}}
    ) as stream:
        message: Any = stream.get_final_completion().choices[0].message
    assert message.content == f"Here {LINK} and there {LINK}."
    cited = [each.url_citation for each in message.annotations]
    links = [message.content[each.start_index : each.end_index] for each in cited]
    assert links == [LINK, LINK]


# Other clients


async def test_the_agents_sdk(base_url: str) -> None:
    settings = ModelSettings(response_include=SOURCES)
    agent = Agent[None]("Reader", tools=[WebSearchTool()], model_settings=settings)
    async with run_config(base_url, MODEL) as config:
        whole = await Runner.run(agent, "Where?", run_config=config)
        streamed = Runner.run_streamed(agent, "Where?", run_config=config)
        async for _ in streamed.stream_events():
            pass
    for result in (whole, streamed):
        assert result.final_output == TEXT
        check(result.raw_responses[0].output, sources=True)


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_agents_sdk_on_chat(base_url: str, streaming: bool) -> None:
    """The SDK has no hosted tools on Chat, so the field of the API is set."""
    settings = ModelSettings(extra_body={"web_search_options": {}})
    agent = Agent[None]("Reader", model_settings=settings)
    async with run_config(base_url, MODEL, use_responses=False) as config:
        if streaming:
            streamed = Runner.run_streamed(agent, "Where?", run_config=config)
            async for _ in streamed.stream_events():
                pass
            assert streamed.final_output == TEXT
        else:
            assert (await Runner.run(agent, "Where?", run_config=config)).final_output == TEXT


@pytest.mark.parametrize("streaming", [False, True])
def test_langchain_on_chat(base_url: str, streaming: bool) -> None:
    model = ChatOpenAI(
        model=MODEL,
        base_url=base_url,
        api_key=SecretStr("any"),
        max_retries=0,
        model_kwargs={"web_search_options": {}},
    )
    if streaming:
        first, *rest = model.stream("Where?")
        message: Any = sum(rest, first)
    else:
        message = model.invoke("Where?")
    assert message.text == TEXT


@pytest.mark.parametrize("streaming", [False, True])
def test_langchain_has_citations_in_content_blocks(base_url: str, streaming: bool) -> None:
    model = ChatOpenAI(
        model=MODEL,
        base_url=base_url,
        api_key=SecretStr("any"),
        max_retries=0,
        use_responses_api=True,
        output_version="v1",
    ).bind_tools([TOOL])
    if streaming:
        first, *rest = model.stream("Where?")
        message: Any = sum(rest, first)
    else:
        message = model.invoke("Where?")
    *calls, text = message.content_blocks
    assert [each["type"] for each in calls] == ["server_tool_call", "server_tool_result"] * 2
    assert {each["status"] for each in calls[1::2]} == {"success"}
    assert text["text"] == TEXT
    assert text["annotations"] == [{"type": "citation", **CITATION}]


FOUND = {"sourceType": "url", "url": PAGE}
CITED = {**FOUND, "title": "Web search"}


@pytest.mark.parametrize(
    ("provider", "actions", "source"),
    [("responses", ["search", "openPage"], FOUND), ("chat", [], CITED), ("openrouter", [], CITED)],
)
def test_the_ai_sdk_shows_sources(
    run_script: RunScript, base_url: str, provider: str, actions: list[str], source: Any
) -> None:
    """The provider for Responses shows a page that was found before it was cited once only."""
    results = run_script("search.mjs", provider, base_url, MODEL)
    assert results["whole"] == results["streamed"]
    assert source in results["whole"].pop("sources")
    assert results["whole"] == {"text": TEXT, "steps": 1, "actions": actions}
