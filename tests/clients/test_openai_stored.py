"""The openai package with responses that outlive their request, and conversations."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

LINES = [
    {"prompt_contains": "briefly", "completion": "<|channel|>final<|message|>Done.<|return|>"},
    {
        "prompt_contains": "at length",
        "completion": "<|channel|>final<|message|>" + "word " * 2000 + "<|return|>",
        "delay_ms": 10,
    },
    {
        "prompt_contains": None,
        "completion": "<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>",
    },
]


@pytest.fixture(scope="module")
def client(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    file = tmp_path_factory.mktemp("store") / "store.db"
    url = serve(LINES, "--store", f"sqlite:///{file}")
    with OpenAI(base_url=url, api_key="none", max_retries=0) as made:
        yield made


def test_a_background_response_is_polled(client: OpenAI) -> None:
    queued = client.responses.create(input="briefly", background=True)
    assert queued.status == "queued"
    with client.responses.retrieve(queued.id, stream=True) as stream:
        kinds = [event.type for event in stream]
    done = client.responses.retrieve(queued.id)
    assert (done.status, done.output_text) == ("completed", "Done.")
    assert kinds[-1] == "response.completed"


def test_a_background_stream_is_taken_up_again_and_cancelled(client: OpenAI) -> None:
    received_events: list[Any] = []
    with client.responses.create(input="at length", background=True, stream=True) as stream:
        for event in stream:
            received_events.append(event)
            if len(received_events) == 20:
                break
    name, last = received_events[0].response.id, received_events[-1].sequence_number
    with client.responses.retrieve(name, stream=True, starting_after=last) as stream:
        assert next(stream).sequence_number == last + 1
    cancelled = client.responses.cancel(name)
    assert cancelled.status == "cancelled"
    with client.responses.retrieve(name, stream=True) as stream:
        replayed = list(stream)
    assert replayed[: len(received_events)] == received_events


def test_items_are_listed_page_by_page(client: OpenAI) -> None:
    last = ""
    for _ in range(3):
        previous: Any = {"previous_response_id": last} if last else {}
        last = client.responses.create(input="hi", **previous).id
    assert last is not None
    listed = list(client.responses.input_items.list(last, limit=2, order="asc"))
    kinds = [item.type for item in listed]
    assert kinds == ["message", "reasoning", "message"] * 2 + ["message"]


def test_a_prompt_is_counted_and_a_conversation_compacted(client: OpenAI) -> None:
    counted = client.responses.input_tokens.count(input="hi", instructions="Be brief.")
    assert counted.input_tokens > 10
    model = client.models.list().data[0].id
    compact = client.responses.compact(model=model, input="hi")
    # The SDK types the users' messages in it as the model's, and warns of its own doing.
    compacted: Any = [item.model_dump(exclude_none=True, warnings=False) for item in compact.output]
    assert compacted[-1]["type"] == "compaction"
    response = client.responses.create(input=[*compacted, {"role": "user", "content": "And?"}])
    assert response.output_text == "Hello!"


def test_a_conversation_is_continued(client: OpenAI) -> None:
    talk = client.conversations.create(metadata={"topic": "x"})
    response = client.responses.create(input="hi", conversation=talk.id)
    assert response.conversation is not None
    assert response.conversation.id == talk.id
    client.conversations.items.create(
        talk.id, items=[{"type": "message", "role": "user", "content": "By the way"}]
    )
    listed = list(client.conversations.items.list(talk.id, order="asc"))
    assert [item.type for item in listed] == ["message", "reasoning", "message", "message"]
    first = client.conversations.items.retrieve(listed[0].id or "", conversation_id=talk.id)
    assert first.id == listed[0].id
    client.conversations.items.delete(listed[0].id or "", conversation_id=talk.id)
    assert client.conversations.update(talk.id, metadata={"topic": "y"}).metadata == {"topic": "y"}
    assert client.conversations.retrieve(talk.id).metadata == {"topic": "y"}
    assert client.conversations.delete(talk.id).deleted
    with pytest.raises(NotFoundError):
        client.conversations.retrieve(talk.id)


def test_reasoning_goes_back_sealed(client: OpenAI) -> None:
    first = client.responses.create(
        input="hi", store=False, include=["reasoning.encrypted_content"]
    )
    output_items: Any = [item.model_dump(exclude_none=True) for item in first.output]
    assert output_items[0]["encrypted_content"]
    again = client.responses.create(
        input=[
            {"role": "user", "content": "hi"},
            *output_items,
            {"role": "user", "content": "And?"},
        ],
        store=False,
    )
    assert again.output_text == "Hello!"
