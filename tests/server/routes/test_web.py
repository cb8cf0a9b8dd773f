import logging
import re
from typing import Any

import pytest

from harmony.tokenizer import encode, encode_with_control
from server.web.assets import version

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = ["/playground", f"/playground/assets/{version()}/main.js"]
CHAT = "<|channel|>final<|message|>Yes<|return|>"
GRAMMAR = "start: <[13022]> <[13022]>"
HELPERS: list[tuple[str, dict[str, Any] | None]] = [
    ("/playground/render", {"blocks": ["*a*"]}),
    ("/playground/parse", {"text": "a"}),
    ("/playground/permitted", {"grammar": GRAMMAR, "tokens": [13022]}),
    ("/playground/load", None),
]


async def test_browsers_get_a_page_of_links(open_app: Any) -> None:
    async with open_app("Yes") as app:
        answer = await app.client.get("/", headers=BROWSER)
    assert answer.status_code == 200
    assert answer.headers["vary"] == "Accept"
    assert set(re.findall(r'<a href="(\w+)"', answer.text)) == {
        "playground",
        "docs",
        "health",
        "ready",
    }


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
async def test_programs_get_the_error_for_unknown_urls(open_app: Any, accept: str) -> None:
    async with open_app("Yes", api_key=("secret",)) as app:
        answer = await app.client.get("/", headers={"accept": accept})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


@pytest.mark.parametrize("path", PAGES)
async def test_pages_need_no_key(open_app: Any, path: str) -> None:
    async with open_app("Yes", api_key=("secret",)) as app:
        assert (await app.client.get(path)).status_code == 200


@pytest.mark.parametrize(("path", "body"), HELPERS)
async def test_helpers_need_a_key(open_app: Any, path: str, body: Any) -> None:
    method = "GET" if body is None else "POST"
    key = {"authorization": "Bearer secret"}
    async with open_app("Yes", api_key=("secret",)) as app:
        refused = await app.client.request(method, path, json=body)
        served = await app.client.request(method, path, json=body, headers=key)
    assert (refused.status_code, served.status_code) == (401, 200)


@pytest.mark.parametrize("path", [*PAGES, *(path for path, _ in HELPERS)])
async def test_nothing_is_served_where_it_is_switched_off(open_app: Any, path: str) -> None:
    body = dict(HELPERS).get(path)
    method = "GET" if body is None else "POST"
    async with open_app("Yes", playground=False) as app:
        assert (await app.client.request(method, path, json=body)).status_code == 404
        page = await app.client.get("/", headers=BROWSER)
    assert 'href="playground"' not in page.text


@pytest.mark.parametrize(
    ("host", "playground", "served"),
    [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("localhost", None, 200),
        ("0.0.0.0", None, 404),
        ("example.test", None, 404),
        ("0.0.0.0", True, 200),
    ],
)
async def test_it_is_served_on_loopback_unless_set(
    open_app: Any, host: str, playground: bool | None, served: int
) -> None:
    settings = {"host": host, "playground": playground, "allowed_host": ("*",)}
    async with open_app("Yes", **settings) as app:
        assert (await app.client.get("/playground")).status_code == served


async def test_the_policy_is_strict(open_app: Any) -> None:
    async with open_app("Yes") as app:
        headers = (await app.client.get("/playground")).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "require-trusted-types-for 'script'" in policy
    assert headers["cache-control"] == "no-cache"


async def test_files_are_cached_for_ever_by_their_hash(open_app: Any) -> None:
    async with open_app("Yes") as app:
        answer = await app.client.get(PAGES[1])
        other = await app.client.get("/playground/assets/0000/main.js")
        unknown = await app.client.get(f"/playground/assets/{version()}/nothing.js")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert (other.status_code, unknown.status_code) == (404, 404)


async def test_files_and_rendered_blocks_have_no_log_lines(
    open_app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "server.http.middleware")
    async with open_app("Yes") as app:
        await app.client.get(PAGES[1])
        await app.post("/playground/render", {"blocks": ["a"]})
        await app.client.get("/playground")
        await app.client.get("/playground/assets/0000/main.js")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[1] for line in lines] == ["/playground", "/playground/assets/0000/main.js"]


async def test_blocks_are_rendered_in_one_request(open_app: Any) -> None:
    async with open_app("Yes") as app:
        answer = await app.post("/playground/render", {"blocks": ["*a*", "$x$"]})
    first, second = answer.json()["html"]
    assert first == "<p><em>a</em></p>\n"
    assert "<math" in second


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("render", {"blocks": ["a" * 100_001]}, "blocks"),
        ("render", {"blocks": ["a"] * 65}, "blocks"),
        ("render", {}, "blocks"),
        ("parse", {}, "text"),
        ("parse", {"text": "a", "tokens": [1]}, "text"),
        ("parse", {"tokens": ["a"]}, "tokens.0"),
        ("parse", {"text": "a " * 300_000}, "text"),
        ("parse", {"text": "a b c", "sampled": [[0, 1], [0, 2]]}, "sampled.1"),
        ("parse", {"text": "a b c", "sampled": [[0, 9]]}, "sampled.0"),
        ("parse", {"text": "a b c", "sampled": [[True, 2]]}, "sampled.0"),
        ("parse", {"text": "a b c", "sampled": 1}, "sampled"),
        ("parse", {"tokens": [200008] * 20_000}, "tokens"),
        ("parse", {"text": "<|message|>" * 20_000}, "text"),
        ("permitted", {"grammar": "start: nothing", "tokens": []}, "grammar"),
        ("permitted", {"grammar": "start: <[999999]>", "tokens": [1]}, "grammar"),
        ("permitted", {"grammar": GRAMMAR, "tokens": [-1]}, "tokens.0"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value),
)
async def test_bad_requests_are_named(open_app: Any, path: str, body: Any, param: str) -> None:
    async with open_app("Yes") as app:
        answer = await app.post(f"/playground/{path}", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


async def test_pasted_text_and_pasted_ids_are_the_same(open_app: Any) -> None:
    text = "<|channel|>final<|message|>Grüße<|return|>"
    async with open_app("Yes") as app:
        one = await app.post("/playground/parse", {"text": text})
        two = await app.post("/playground/parse", {"tokens": encode_with_control(text)})
    assert one.json() == two.json()
    assert bytes.fromhex("".join(one.json()["token_bytes"])).decode() == text
    assert one.json()["messages"][0]["content"] == "Grüße"


async def test_messages_have_the_places_of_their_tokens(open_app: Any) -> None:
    prompt = encode_with_control("<|start|>user<|message|>Hi<|end|><|start|>assistant")
    ids = [*prompt, *encode_with_control("<|message|>Yes<|return|>")]
    body = {"tokens": ids, "sampled": [[len(prompt), len(ids)]]}
    async with open_app("Yes") as app:
        first, second = (await app.post("/playground/parse", body)).json()["messages"]
    assert (first["role"], first["span"], first["body"]) == ("user", [0, 5], [3, 4])
    assert second["span"] == [5, 10]
    assert second["repairs"] == [{"name": "missing_channel", "span": [5, 8]}]


async def test_permitted_tokens_are_counted(open_app: Any) -> None:
    body = {"grammar": GRAMMAR, "tokens": [13022, 13022, 1]}
    async with open_app("Yes") as app:
        answer = await app.post("/playground/permitted", body)
    assert answer.json() == {"permitted": [1, 1], "refused": None, "vocabulary": 201_088}


async def test_the_load_is_what_runs_and_waits_and_the_tokens_so_far(open_app: Any) -> None:
    async with open_app(CHAT, max_running=2, max_waiting=3) as app:
        before = (await app.client.get("/playground/load")).json()
        usage = (await app.post("/v1/responses", {"input": "hi"})).json()["usage"]
        after = (await app.client.get("/playground/load")).json()
    assert before == {
        "admitted": 0,
        "waiting": 0,
        "limit": 5,
        "tokens": {"prompt": 0, "cached": 0, "sampled": 0},
        "problems": {"engine": None, "store": None},
    }
    assert after["tokens"] == {
        "prompt": usage["input_tokens"],
        "cached": 0,
        "sampled": usage["output_tokens"],
    }


async def test_tokenize_gives_the_bytes_of_each_token_on_request(open_app: Any) -> None:
    async with open_app("Yes") as app:
        plain = (await app.post("/tokenize", {"prompt": "é"})).json()
        body = {"prompt": "ab é", "return_token_bytes": True}
        result = (await app.post("/tokenize", body)).json()
    assert "token_bytes" not in plain
    assert len(result["token_bytes"]) == len(encode("ab é"))
    assert bytes.fromhex("".join(result["token_bytes"])).decode() == "ab é"


async def test_detokenize_gives_the_bytes_of_each_token_on_request(open_app: Any) -> None:
    async with open_app("Yes") as app:
        plain = (await app.post("/detokenize", {"tokens": [13022]})).json()
        body = {"tokens": [13022], "return_token_bytes": True}
        result = (await app.post("/detokenize", body)).json()
    assert plain == {"prompt": "Yes"}
    assert result == {"prompt": "Yes", "token_bytes": [b"Yes".hex()]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses/render", {"input": "Grüße"}),
        (
            "/v1/chat/completions/render",
            {"model": "scripted", "messages": [{"role": "user", "content": "Grüße"}]},
        ),
    ],
)
async def test_a_rendered_prompt_has_the_bytes_of_its_tokens_on_request(
    open_app: Any, path: str, body: Any
) -> None:
    async with open_app("Yes") as app:
        plain = (await app.post(f"{path}?return_token_bytes=false", body)).json()
        result = (await app.post(f"{path}?return_token_bytes=true", body)).json()
        refused = await app.post(f"{path}?return_token_bytes=1", body)
    assert "token_bytes" not in plain
    assert bytes.fromhex("".join(result["token_bytes"])).decode() == result["text"]
    assert refused.json()["error"]["param"] == "return_token_bytes"
