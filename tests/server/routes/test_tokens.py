import threading
from typing import Any

import pytest

from harmony.tokenizer import encode, encode_with_control
from server.inbound import prompts
from server.routes import tokens
from server.schemas.limits import MAX_IDS


async def test_text_becomes_ids_and_ids_become_text(open_app: Any) -> None:
    async with open_app("Yes") as app:
        result = (await app.post("/tokenize", {"prompt": "Hello <|end|>"})).json()
        back = (await app.post("/detokenize", {"tokens": result["tokens"]})).json()
    assert result["tokens"] == encode("Hello <|end|>")
    assert result["count"] == len(result["tokens"])
    assert result["max_model_len"] == 131_072
    assert result["token_strs"] is None
    assert back == {"prompt": "Hello <|end|>"}


async def test_control_tokens_and_the_tokens_texts_on_request(open_app: Any) -> None:
    body = {"prompt": "a<|end|>", "control_tokens": True, "return_token_strs": True}
    async with open_app("Yes") as app:
        result = (await app.post("/tokenize", body)).json()
    assert result["tokens"] == encode_with_control("a<|end|>")
    assert result["token_strs"] == ["a", "<|end|>"]


@pytest.mark.parametrize(
    ("path", "module"), [("/tokenize", tokens), ("/v1/completions", prompts)], ids=["ids", "prompt"]
)
async def test_long_texts_do_not_hold_up_others(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, path: str, module: Any
) -> None:
    threads: list[int] = []

    def encode_noted(text: str, most: int, *, control: bool) -> list[int]:
        threads.append(threading.get_ident())
        return encode(text)

    monkeypatch.setattr(module, "encode_within", encode_noted)
    async with open_app("Yes") as app:
        answer = await app.post(path, {"model": "scripted", "prompt": "a"})
    assert answer.status_code == 200
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {}, 400, "prompt"),
        ("/tokenize", {"prompt": ["a"]}, 400, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "other"}, 404, "model"),
        ("/detokenize", {"tokens": "a"}, 400, "tokens"),
        ("/detokenize", {"tokens": [1, -1]}, 400, "tokens.1"),
        ("/detokenize", {"tokens": [], "model": "other"}, 404, "model"),
    ],
)
async def test_a_bad_field_is_named(
    open_app: Any, path: str, body: dict[str, Any], status: int, param: str
) -> None:
    async with open_app("Yes") as app:
        answer = await app.post(path, body)
    assert answer.status_code == status
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/v1/chat/completions/render"])
async def test_a_key_is_needed_where_there_are_keys(open_app: Any, path: str) -> None:
    async with open_app("Yes", api_key=("secret",)) as app:
        assert (await app.post(path, {})).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"prompt": "a b " * MAX_IDS}, "prompt"),
        ("/detokenize", {"tokens": [1] * (MAX_IDS + 1)}, "tokens"),
    ],
)
async def test_the_number_of_ids_is_limited(
    open_app: Any, path: str, body: dict[str, Any], param: str
) -> None:
    async with open_app("Yes") as app:
        answer = await app.post(path, body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
