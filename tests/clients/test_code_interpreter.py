"""The code interpreter of clients, against real server processes with a real sandbox."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents import Agent, CodeInterpreterTool, Runner
from openai import APIStatusError, OpenAI
from openai.types.responses import Response

from tests.clients.agents_sdk import run_config
from tests.clients.conftest import RunScript, Start, with_python
from tests.sampled import call, final

MODEL = "gpt-oss-test"
START = "<|start|>assistant"
TOOL: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
OUTPUTS: Any = ["code_interpreter_call.outputs"]
CALL = "response.code_interpreter_call"


def thought(text: str) -> str:
    return f"<|channel|>analysis<|message|>{text}<|end|>{START}"


CELLS = [
    "x = 3\nprint('first', x)",
    "x *= 3\nx",
    "open('/mnt/data/nine.txt', 'w').write(hex(x))\nprint('third', hex(x))",
]
LOGS = ["first 3\n", "9\n", "third 0x9\n"]
TEXT = "Nine is in sandbox:/mnt/data/nine.txt now."
COUNT = [
    {"prompt_contains": "<|message|>third 0x9", "completion": final(TEXT)},
    {"prompt_contains": "<|message|>9<|end|>", "completion": call(CELLS[2])},
    {"prompt_contains": "<|message|>first 3", "completion": thought("Go on.") + call(CELLS[1])},
    {"prompt_contains": "Count", "completion": thought("Think.") + call(CELLS[0])},
]
ADD = [
    {"prompt_contains": "<|message|>sum 6", "completion": final("Six.")},
    {
        "prompt_contains": "Add.",
        "completion": call("print('sum', sum(map(int, open('/mnt/data/a.csv').read().split())))"),
    },
]
STATE = [
    {"prompt_contains": "<|message|>has 3", "completion": final("Three.")},
    {"prompt_contains": "Read x.", "completion": call("print('has', x)")},
    {"prompt_contains": "<|message|>set", "completion": final("Set.")},
    {"prompt_contains": "Set x.", "completion": call("x = 3\nprint('set')")},
]


@pytest.fixture(scope="module")
def base_url(start: Start) -> str:
    return with_python(start, [*COUNT, *ADD, *STATE], "--served-model-name", MODEL)[1]


# The SDK in Python


def check(response: Response, *, outputs: bool) -> None:
    """Check an answer to `Count`."""
    assert response.status == "completed"
    kinds = ["reasoning", "code_interpreter_call", "reasoning", *["code_interpreter_call"] * 2]
    assert [item.type for item in response.output] == [*kinds, "message"]
    calls = [item for item in response.output if item.type == "code_interpreter_call"]
    assert [item.code for item in calls] == CELLS
    assert {item.status for item in calls} == {"completed"}
    assert len({item.container_id for item in calls}) == 1
    logs = [item.to_dict()["outputs"] for item in calls]
    assert logs == [[{"type": "logs", "logs": text}] if outputs else None for text in LOGS]
    assert response.output_text == TEXT


@pytest.mark.parametrize("include", [[], OUTPUTS])
def test_three_calls_share_their_state(client: OpenAI, include: Any) -> None:
    made = client.responses.create(model=MODEL, input="Count.", tools=[TOOL], include=include)
    check(made, outputs=bool(include))
    assert client.responses.retrieve(made.id) == made


def test_a_file_that_the_code_writes_is_cited_and_downloaded(client: OpenAI) -> None:
    made = client.responses.create(model=MODEL, input="Count.", tools=[TOOL])
    message = made.output[-1]
    assert message.type == "message"
    part: Any = message.content[0].to_dict()
    (annotation,) = part["annotations"]
    container, file = annotation["container_id"], annotation["file_id"]
    cited = TEXT[annotation["start_index"] : annotation["end_index"]]
    assert (annotation["filename"], cited) == ("nine.txt", "sandbox:/mnt/data/nine.txt")
    content = client.containers.files.content.retrieve(file, container_id=container)
    assert content.read() == b"0x9"
    assert [each.id for each in client.containers.files.list(container)] == [file]
    assert client.containers.retrieve(container).status == "running"
    client.containers.delete(container)
    with pytest.raises(APIStatusError) as missing:
        client.containers.retrieve(container)
    assert missing.value.status_code == 404


def test_a_stream_has_the_events_of_the_api_in_their_order(client: OpenAI) -> None:
    stream = client.responses.create(
        model=MODEL, input="Count.", tools=[TOOL], include=OUTPUTS, stream=True
    )
    events: list[dict[str, Any]] = [event.to_dict() for event in stream]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    made = Response.model_validate(events[-1]["response"])
    check(made, outputs=True)
    for index, cell, logs in zip((1, 3, 4), CELLS, LOGS, strict=True):
        check_call([each for each in events if each.get("output_index") == index], cell, logs)
    last = [each for each in events if each.get("output_index") == 5]
    kinds = [each["type"].removeprefix("response.") for each in last]
    added = kinds.index("output_text.annotation.added")
    # The annotation follows the text that it is about.
    text = "".join(str(each["delta"]) for each in last[:added] if "delta" in each)
    assert TEXT.startswith(text)
    assert text.startswith(TEXT.removesuffix(" now."))


def check_call(events: list[dict[str, Any]], cell: str, logs: str) -> None:
    """Check all fields of all events of one call."""
    first, *_, last = events
    own = {"item_id": first["item"]["id"], "output_index": first["output_index"]}
    item = {
        "id": own["item_id"],
        "type": "code_interpreter_call",
        "container_id": first["item"]["container_id"],
    }
    begun = {"status": "in_progress", "code": "", "outputs": None}
    ended = {"status": "completed", "code": cell, "outputs": [{"type": "logs", "logs": logs}]}
    shown = [{key: each[key] for key in each if key != "sequence_number"} for each in events]
    position = {"output_index": own["output_index"]}
    deltas = [each for each in shown if each["type"] == f"{CALL}_code.delta"]
    assert shown == [
        {"type": "response.output_item.added", "item": item | begun, **position},
        {"type": f"{CALL}.in_progress", **own},
        *deltas,
        {"type": f"{CALL}_code.done", "code": cell, **own},
        {"type": f"{CALL}.interpreting", **own},
        {"type": f"{CALL}.completed", **own},
        {"type": "response.output_item.done", "item": item | ended, **position},
    ]
    assert len(deltas) > 5
    assert all(each == {"type": each["type"], "delta": each["delta"], **own} for each in deltas)
    assert "".join(each["delta"] for each in deltas) == cell
    assert last["item"]["container_id"].startswith("cntr_")


def test_an_uploaded_file_is_read_in_a_container_of_the_client(client: OpenAI) -> None:
    file = client.files.create(file=("a.csv", b"1 2 3"), purpose="user_data")
    auto: Any = {"type": "auto", "file_ids": [file.id]}
    container = client.containers.create(name="mine", file_ids=[file.id])
    for where in (auto, container.id):
        tool: Any = {"type": "code_interpreter", "container": where}
        made = client.responses.create(model=MODEL, input="Add.", tools=[tool])
        assert made.output_text == "Six."
    names = [each.path for each in client.containers.files.list(container.id)]
    assert names == ["/mnt/data/a.csv"]
    uploaded = client.containers.files.create(container.id, file=("b.txt", b"b"))
    client.containers.files.delete(uploaded.id, container_id=container.id)
    with pytest.raises(APIStatusError, match="cntr_none"):
        client.responses.create(
            model=MODEL,
            input="Add.",
            tools=[{"type": "code_interpreter", "container": "cntr_none"}],
        )


def test_a_conversation_keeps_its_container_and_its_variables(client: OpenAI) -> None:
    conversation = client.conversations.create().id
    first, second = (
        client.responses.create(model=MODEL, input=text, tools=[TOOL], conversation=conversation)
        for text in ("Set x.", "Read x.")
    )
    other = client.responses.create(model=MODEL, input="Set x.", tools=[TOOL])
    assert [first.output_text, second.output_text] == ["Set.", "Three."]
    containers = [
        item.container_id
        for made in (first, second, other)
        for item in made.output
        if item.type == "code_interpreter_call"
    ]
    assert containers[0] == containers[1] != containers[2]


# The sandbox as a service of its own


@pytest.fixture
def sandbox_url() -> Iterator[str]:
    """The address of `gpt-oss-server python-sandbox`, which needs the key `k`."""
    folder = tempfile.mkdtemp(prefix="gpt-oss-test-")
    os.chmod(folder, 0o711)
    command = [sys.executable, "-m", "server", "python-sandbox", "--port", "0", "--key", "k"]
    with subprocess.Popen(
        [*command, "--folder", f"{folder}/root"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        text = ""
        for line in process.stderr:
            text += line
            if found := re.search(r"Python sessions at (\S+)", line):
                yield found[1]
                process.terminate()
                break
        else:
            pytest.skip(text)
    subprocess.run(["rm", "-rf", folder], check=True)


def test_a_sandbox_of_its_own_runs_the_calls(start: Start, sandbox_url: str) -> None:
    options = ("--python-sandbox", sandbox_url, "--python-sandbox-key", "k")
    _, url = with_python(start, COUNT, "--served-model-name", MODEL, *options)
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        made = client.responses.create(model=MODEL, input="Count.", tools=[TOOL], include=OUTPUTS)
        check(made, outputs=True)
        (container,) = {
            item.container_id for item in made.output if item.type == "code_interpreter_call"
        }
        (file,) = client.containers.files.list(container)
        content = client.containers.files.content.retrieve(file.id, container_id=container)
        assert content.read() == b"0x9"


# Other clients


async def test_the_agents_sdk(base_url: str) -> None:
    agent = Agent[None]("Counter", tools=[CodeInterpreterTool(tool_config=TOOL)])
    async with run_config(base_url, MODEL) as config:
        whole = await Runner.run(agent, "Count.", run_config=config)
        streamed = Runner.run_streamed(agent, "Count.", run_config=config)
        async for _ in streamed.stream_events():
            pass
    for result in (whole, streamed):
        calls = [item.raw_item for item in result.new_items if item.type == "tool_call_item"]
        assert [call.code for call in calls] == CELLS  # type: ignore[union-attr]
        assert result.final_output == TEXT


def test_the_ai_sdk(run_script: RunScript, base_url: str) -> None:
    read = {"text": TEXT, "steps": 1, "codes": CELLS, "containers": 1, "logs": LOGS}
    assert run_script("code.mjs", base_url, MODEL) == {"whole": read, "streamed": read}


# Chat


def test_a_chat_completion_shows_reasoning_and_content_only(client: OpenAI) -> None:
    body: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}]}
    made = client.chat.completions.create(**body, tools=[TOOL]).to_dict()
    message = made["choices"][0]["message"]
    assert (message["content"], message.get("tool_calls")) == (TEXT, None)
    assert message["reasoning"] == "Think.\n\nGo on."
    used = {"web_search_requests": 0, "tool_calls_requested": 3, "tool_calls_executed": 3}
    assert made["usage"]["server_tool_use"] == used
    stream = client.chat.completions.create(
        **body, tools=[TOOL], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk.to_dict() for chunk in stream]
    deltas = [each["delta"] for chunk in chunks for each in chunk["choices"]]
    shown = {name for delta in deltas for name, value in delta.items() if value}
    assert shown == {"role", "content", "reasoning", "reasoning_details"}
    assert "".join(delta.get("content") or "" for delta in deltas) == TEXT
    assert chunks[-1]["usage"]["server_tool_use_details"] == used


# Servers without Python


def test_a_server_whose_sandbox_is_off_says_why(start: Start, tmp_path: Path) -> None:
    options = ("--hosted-tools", "python", "--python-sandbox", "http://127.0.0.1:9")
    log = tmp_path / "log"
    _, url = start(COUNT, *options, "--log-level", "info", log=log)
    with httpx.Client(base_url=url) as http:
        ready = http.get(f"{url.removesuffix('/v1')}/ready")
        refused = http.post("/responses", json={"input": "Count.", "tools": [TOOL]})
        plain = http.post("/responses", json={"input": "Count."})
    assert (ready.status_code, ready.json()["tools"]) == (200, {"python": "off"})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "tool_unavailable")
    problem = error["message"].partition("on this server: ")[2]
    assert f"python is off: {problem}\n" in log.read_text()
    assert error["param"] == "tools.0"
    assert plain.status_code == 200


def test_a_server_without_hosted_tools_leaves_them_out(start: Start) -> None:
    _, url = start([{"completion": final("Hi.")}], "--hosted-tools", "none")
    with httpx.Client(base_url=url) as http:
        ready = http.get(f"{url.removesuffix('/v1')}/ready").json()
        made = http.post("/responses", json={"input": "Count.", "tools": [TOOL]}).json()
    assert ready["tools"] == {}
    assert made["tools"] == []
    assert made["gpt_oss:unserved_tools"] == ["code_interpreter"]
