import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from harmony.tokenizer import encode_with_control
from tests.browser.conftest import Server, running
from tests.browser.test_chat import ask

OPENING = """
async (count) => {
  const base = document.querySelector("script").src;
  const load = (name) => import(base.replace("main.js", name));
  const [{ readTokens }, { TokenPane }] = [await load("tokens.js"), await load("pane.js")];
  const ids = Array.from({ length: count }, (_, index) => 1000 + (index % 5000));
  const hex = ids.map(() => "20616263");
  const pane = new TokenPane("Tokens", (token) => token.text, () => {}, () => {});
  document.getElementById("view").append(pane.element);
  pane.show(readTokens(ids, hex, []), []);
  const last = pane.elementAt(count - 1);
  return [pane.element.children.length, pane.placeOf(last), pane.element.textContent.length];
}
"""
HARMONY = (
    "<|start|>user<|message|>Weather?<|end|><|start|>assistant to=functions.f<|channel|>commentary"
    " <|constrain|>json<|message|>{}<|call|>"
)


def inspector(open_page: Any, **options: Any) -> Page:
    page: Page = open_page(view="inspector", **options)
    expect(page.get_by_role("button", name="Parse")).to_be_visible()
    return page


def show_prompt(page: Page, request: Any) -> None:
    page.get_by_label("Request (JSON").fill(json.dumps(request))
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.get_by_role("heading", name="Prompt ·")).to_be_visible()


def show_harmony(page: Page, text: str) -> None:
    page.get_by_label("Harmony text or token ids").fill(text)
    page.get_by_role("button", name="Parse").click()
    expect(page.get_by_role("heading", name="Harmony", exact=True)).to_be_visible()


def pane(page: Page, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def inspect_answer(page: Page, text: str) -> None:
    ask(page, text)
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Inspect").click()
    expect(page.get_by_role("heading", name="Prompt and answer")).to_be_visible()


def test_the_prompt_of_a_request_is_shown_token_by_token(open_page: Any) -> None:
    page = inspector(open_page)
    show_prompt(page, {"input": "Grüße 🤖🏽", "text": {}})
    tokens = pane(page, "Tokens")
    expect(tokens.locator(".t.control").first).to_have_text("<|start|>")
    expect(tokens.locator(".t.user.body").first).to_have_text("Gr")
    assert "".join(tokens.locator(".t.user.body").all_text_contents()) == "Grüße 🤖🏽"
    expect(pane(page, "Token ids").locator(".t").first).to_have_text("200006 ")
    expect(pane(page, "Messages").locator(".card").last).to_contain_text("Grüße 🤖🏽")
    expect(page.get_by_role("heading", name="Grammar")).to_be_visible()
    expect(page.locator(".stop").first).to_have_text("199999")


def test_the_prompt_follows_its_request(open_page: Any) -> None:
    page = inspector(open_page)
    show_prompt(page, {"input": "one"})
    page.get_by_label("Request (JSON").fill('{"input": "another one"}')
    expect(pane(page, "Messages").locator(".card").last).to_contain_text("another one")


def test_the_prompt_of_a_chat_completion_is_shown(open_page: Any) -> None:
    page = inspector(open_page)
    show_prompt(page, {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]})
    expect(pane(page, "Messages").locator(".card").last).to_contain_text("Hi")


def test_a_token_is_explained_under_the_pointer_and_by_keys(open_page: Any) -> None:
    page = inspector(open_page)
    show_prompt(page, {"input": "Hi"})
    tokens = pane(page, "Tokens")
    tokens.locator(".t.control").first.hover()
    tip = page.locator(".tip")
    expect(tip).to_contain_text("id 200006")
    expect(tip).to_contain_text("bytes 3c 7c 73 74 61 72 74 7c 3e")
    expect(tip).to_contain_text("Begins a message.")
    tokens.locator(".tokens").focus()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("position 1")
    expect(tip).to_contain_text("system · header")


def test_a_token_is_marked_in_all_panes(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, HARMONY)
    pane(page, "Tokens").get_by_text("{}", exact=True).hover()
    expect(pane(page, "Token ids").locator(".picked")).to_have_text("12083 ")
    expect(pane(page, "Messages").locator(".marked")).to_contain_text("→ functions.f")
    pane(page, "Token ids").locator(".t").nth(2).hover()
    expect(pane(page, "Tokens").locator(".picked")).to_have_text("<|message|>")
    pane(page, "Messages").locator(".card").last.hover()
    expect(pane(page, "Tokens").locator(".picked")).to_have_text("{}")


def test_the_panes_follow_edited_text(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, HARMONY)
    page.get_by_role("button", name="Edit: Tokens").click()
    page.get_by_label("Tokens, as text").fill("<|channel|>final<|message|>Yes<|return|>")
    expect(pane(page, "Messages").locator(".card")).to_have_count(1)
    expect(pane(page, "Messages")).to_contain_text("Yes")
    expect(pane(page, "Token ids").locator(".t").nth(3)).to_have_text("13022 ")
    pane(page, "Tokens").get_by_role("button").click()
    expect(pane(page, "Tokens").locator(".t.final.body")).to_have_text("Yes")


def test_the_panes_follow_edited_ids(open_page: Any) -> None:
    page = inspector(open_page, expected="400")
    show_harmony(page, HARMONY)
    page.get_by_role("button", name="Edit: Token ids").click()
    field = page.get_by_label("Token ids, as text")
    expect(field).to_have_value(", ".join(map(str, encode_with_control(HARMONY))))
    field.fill("200005, 17196, 200008, 13022")
    expect(pane(page, "Tokens").locator(".t.body").first).to_have_text("Yes")
    field.fill("twelve")
    expect(page.get_by_role("alert")).to_contain_text("These are not token ids")
    expect(pane(page, "Tokens").locator(".t.body").first).to_have_text("Yes")


def test_the_panes_follow_an_edited_message(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, HARMONY)
    page.get_by_role("button", name="Edit message 1").click()
    page.get_by_label("Content of message 1").fill("Rain?")
    expect(pane(page, "Tokens").locator(".t.user.body").first).to_have_text("Rain")
    expect(pane(page, "Tokens").locator(".t.commentary.body")).to_have_text("{}")
    page.get_by_label("Content of message 1").press_sequentially(" Or sun?")
    expect(pane(page, "Tokens").locator(".tokens")).to_contain_text("Rain? Or sun?")


def test_a_control_token_that_is_typed_into_a_message_is_there_once(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, HARMONY)
    page.get_by_role("button", name="Edit message 1").click()
    field = page.get_by_label("Content of message 1")
    field.fill("")
    field.press_sequentially("Rain?<|end|> x yz")
    expect(pane(page, "Tokens").locator(".tokens")).to_contain_text("yz")
    # Chunks that were drawn since the last frame have no inner text yet.
    text = pane(page, "Tokens").locator(".tokens").text_content()
    assert text.count("Rain") == 1
    assert text.count("yz") == 1


@pytest.mark.parametrize("width", [1280, 1100, 1000, 700, 360])
def test_the_forms_are_there_at_each_width(open_page: Any, width: int) -> None:
    page = inspector(open_page)
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.get_by_label("Request (JSON")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_inspected_answer_is_in_view_on_a_narrow_screen(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 844})
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Inspect").click()
    expect(page.get_by_role("heading", name="Numbers")).to_be_in_viewport()
    expect(page.locator(".results-pane")).to_be_focused()
    expect(page.get_by_role("button", name="Parse")).to_be_hidden()
    page.get_by_text("What to inspect").click()
    expect(page.get_by_role("button", name="Parse")).to_be_visible()


def test_a_malformed_completion_is_shown_with_its_repairs(open_page: Any) -> None:
    page = open_page()
    inspect_answer(page, "malformed, please")
    expect(pane(page, "Messages").locator(".repair").first).to_have_text("missing start")
    repaired = pane(page, "Tokens").locator(".t.repaired")
    expect(repaired.first).to_have_text("final")
    repaired.first.hover()
    expect(page.locator(".tip")).to_contain_text("Repaired: missing start.")
    expect(pane(page, "Tokens").locator(".t.analysis.body").first).to_be_visible()


def test_sampled_tokens_have_their_alternatives_and_entropy(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Log probabilities").select_option("5")
    inspect_answer(page, "Hi")
    tokens = pane(page, "Tokens")
    tokens.locator(".t.sampled.final.body", has_text="How").hover()
    tip = page.locator(".tip")
    expect(tip.locator(".bar-row")).to_have_count(2)
    expect(tip.locator(".bar-row").first).to_contain_text('"How"')
    expect(tip.locator(".bar-row").first).to_contain_text("40.7 %")
    # Of the reasoning, too.
    tokens.locator(".t.analysis.body").first.hover()
    expect(tip.locator(".bar-row").first).to_contain_text("81.9 %")
    plot = page.get_by_role("heading", name="Entropy").locator("..").locator("svg")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 9)
    expect(tokens.locator(".picked")).to_have_text("<|return|>")


def test_an_answer_has_a_time_line_and_numbers(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Most tokens").fill("64")
    inspect_answer(page, "Hi")
    expect(page.get_by_role("heading", name="Time line")).to_be_visible()
    expect(page.get_by_role("row", name="sampling")).to_be_visible()
    numbers = page.locator(".numbers")
    expect(numbers).to_contain_text("Time to first token")
    expect(numbers).to_contain_text("Tokens per second")
    expect(numbers).to_contain_text("of at most 64")


@pytest.fixture(scope="module")
def constrained() -> Any:
    with running("--store", "memory", "--constrain", "always", "--drain-seconds", "0") as server:
        yield server


def test_tokens_that_the_grammar_forced_or_restricted_are_marked(
    open_page: Any, constrained: Server
) -> None:
    page = open_page(constrained.url)
    inspect_answer(page, "Hi")
    tokens = pane(page, "Tokens")
    expect(page.get_by_text("The grammar forced")).to_be_visible()
    expect(tokens.locator(".t.forced").first).to_have_text("<|channel|>")
    expect(page.locator(".tip")).to_be_hidden()
    tokens.locator(".t.forced").first.hover()
    expect(page.locator(".tip")).to_contain_text("Forced")
    tokens.locator(".t.restricted").first.hover()
    expect(page.locator(".tip")).to_contain_text("Restricted: the grammar permits")


RECORD = {
    "recorded": True,
    "prompt_token_ids": encode_with_control(
        "<|start|>user<|message|>6*7?<|end|><|start|>assistant"
    ),
    "calls": [{"recipient": "python", "started_ms": 300, "ended_ms": 800}],
}
CODE = encode_with_control(" to=python<|channel|>analysis code<|message|>print(42)<|call|>")
RESULT = encode_with_control(
    "<|start|>python to=assistant<|channel|>analysis<|message|>42<|end|><|start|>assistant"
)
FINAL = encode_with_control("<|channel|>final<|message|>42<|return|>")


def sampling(start: int, count: int, started: int, cached: int) -> dict[str, Any]:
    return {
        "start": start,
        "end": start + count,
        "prompt_tokens": 9,
        "cached_tokens": cached,
        "max_tokens": 100,
        "grammar": None,
        "started_ms": started,
        "ended_ms": started + 200,
        "token_ms": [started + 100 + at for at in range(count)],
        "logprobs": None,
    }


def test_rounds_of_tools_are_shown(open_page: Any) -> None:
    page = inspector(open_page)
    first, second = sampling(0, len(CODE), 100, 4), sampling(len(CODE + RESULT), len(FINAL), 900, 0)
    record = {**RECORD, "token_ids": CODE + RESULT + FINAL, "samplings": [first, second]}
    response: Any = {"id": "resp_1", "tools": [], "usage": None, "gpt_oss:record": record}
    page.route("**/v1/responses/resp_1?*", lambda route: route.fulfill(json=response))
    page.get_by_label("Stored response").fill("resp_1")
    page.get_by_role("button", name="Show its tokens").click()
    rows = page.locator(".times tbody tr")
    expect(rows).to_have_count(7)
    expect(page.get_by_role("row", name="python 300 ms 800 ms 500 ms")).to_be_visible()
    tokens = pane(page, "Tokens")
    expect(tokens.locator(".t.cached")).to_have_count(4)
    assert "".join(tokens.locator(".t.inserted").all_text_contents()).startswith("<|start|>python")
    expect(pane(page, "Messages").locator(".card")).to_have_count(4)
    expect(page.locator(".repair")).to_have_count(0)


def test_reasoning_that_the_server_closed_is_marked(open_page: Any) -> None:
    page = inspector(open_page)
    reasoning = encode_with_control("<|channel|>analysis<|message|>Hm. Hm. Hm.")
    closing = encode_with_control("<|end|><|start|>assistant")
    first = sampling(0, len(reasoning), 0, 0)
    second = sampling(len(reasoning + closing), len(FINAL), 400, 0)
    tokens = reasoning + closing + FINAL
    record = {**RECORD, "calls": [], "token_ids": tokens, "samplings": [first, second]}
    response: Any = {"id": "resp_1", "tools": [], "usage": None, "gpt_oss:record": record}
    page.route("**/v1/responses/resp_1?*", lambda route: route.fulfill(json=response))
    page.get_by_label("Stored response").fill("resp_1")
    page.get_by_role("button", name="Show its tokens").click()
    repaired = pane(page, "Tokens").locator(".t.repaired")
    expect(repaired).to_have_text(["<|end|>", "<|start|>", "assistant"])
    repaired.first.hover()
    expect(page.locator(".tip")).to_contain_text("Repaired: repetition.")


def test_a_response_without_a_record_is_rendered_again(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Record tokens for the inspector").uncheck()
    inspect_answer(page, "Hi")
    expect(page.get_by_text("No record was made of this response.")).to_be_visible()
    expect(pane(page, "Tokens").locator(".t.sampled.final.body").first).to_have_text("Hello")


def test_pasted_harmony_is_parsed(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, "<|channel|>final<|message|>Yes<|return|>")
    expect(page.locator(".messages .card")).to_contain_text("Yes")
    show_harmony(page, "[200005, 17196, 200008, 13022]")
    expect(page.locator(".messages .repair")).to_have_text("not complete")


def test_two_prompts_are_compared(open_page: Any) -> None:
    page = inspector(open_page)
    page.get_by_label("Request (JSON").fill('{"input": "one and two and three"}')
    page.get_by_label("Request or response id").fill('{"input": "one or two and also three"}')
    page.get_by_role("button", name="Compare the prompts").click()
    expect(page.get_by_text("Then they differ, in message")).to_contain_text("(user)")
    assert page.locator(".t.different").all_text_contents() == [" and", " or", " also"]
    page.locator(".tokens").first.get_by_text(" three", exact=True).hover()
    expect(page.locator(".tokens").last.locator(".picked")).to_have_text(" three")


def test_a_prompt_is_compared_with_that_of_a_stored_response(
    open_page: Any, server: Server
) -> None:
    page = open_page()
    inspect_answer(page, "Hi")
    identity = page.get_by_label("Stored response").input_value()
    page.get_by_label("Request (JSON").fill('{"input": "Hi", "tools": []}')
    page.get_by_label("Request or response id").fill(identity)
    page.get_by_role("button", name="Compare the prompts").click()
    expect(page.get_by_text("The prompts are the same.")).to_be_visible()


def test_messages_are_filtered_by_role_channel_and_recipient(open_page: Any) -> None:
    page = inspector(open_page)
    show_harmony(page, HARMONY)
    tokens = pane(page, "Tokens").locator(".tokens")
    for name, hidden in [("user", "Weather"), ("commentary", "{}"), ("functions.f", "{}")]:
        toggle = page.locator(".filters").get_by_role("button", name=name, exact=True)
        toggle.click()
        expect(tokens).not_to_contain_text(hidden)
        toggle.click()
        expect(tokens).to_contain_text(hidden)
    page.locator(".filters").get_by_role("button", name="user", exact=True).click()
    expect(pane(page, "Messages").locator(".card")).to_have_count(1)
    expect(pane(page, "Token ids").locator(".t").first).to_have_text("200006 ")
    pane(page, "Token ids").locator(".t").first.hover()
    expect(page.locator(".tip")).to_contain_text("position 6")


def test_an_error_is_said_in_words(open_page: Any) -> None:
    page = inspector(open_page, expected="404")
    page.get_by_label("Request (JSON").fill("{nonsense")
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not JSON")
    page.get_by_label("Stored response").fill("resp_none")
    page.get_by_role("button", name="Show its tokens").click()
    expect(page.get_by_role("alert")).to_contain_text("not found")


def test_many_tokens_are_in_chunks(open_page: Any) -> None:
    page = inspector(open_page)
    assert page.evaluate(OPENING, 100_000) == [250, 99_999, 400_000]


DIFFERENCES = """
async (pairs) => {
  const base = document.querySelector("script").src;
  const { partners } = await import(base.replace("main.js", "diff.js"));
  return pairs.map(([one, two]) => [...partners(one, two)]);
}
"""


def test_a_difference_is_as_short_as_possible(open_page: Any) -> None:
    page = inspector(open_page)
    cases: list[tuple[list[int], list[int], list[int]]] = [
        ([], [1], []),
        ([1, 2, 3], [1, 2, 3], [0, 1, 2]),
        ([1, 2, 3, 9], [1, 3, 4, 9], [0, -1, 1, 3]),
        ([1, 2, 3], [4, 5, 6], [-1, -1, -1]),
        ([7, 1, 8, 2, 7], [9, 1, 6, 2, 5], [-1, 1, -1, 3, -1]),
    ]
    found = page.evaluate(DIFFERENCES, [[one, two] for one, two, _ in cases])
    assert found == [expected for _, _, expected in cases]


def test_the_load_is_plotted(open_page: Any, server: Server) -> None:
    page = open_page(view="load")
    expect(page.get_by_text("The engine and the store can serve.")).to_be_visible()
    expect(page.locator("output").first).to_have_text("0 run, 0 wait")
    expect(page.get_by_text("Read from /playground/load")).to_contain_text("At most 320 requests")
    expect(page.locator("svg.plot")).to_have_count(4)
    expect(page.locator("output").nth(1)).to_contain_text("and")


METRICS = """# HELP vllm:num_requests_running Running.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0"} 1
vllm:generation_tokens_total{engine="0"} 1e+03
vllm:prompt_tokens_total{engine="0"} 400
vllm:prefix_cache_hits_total{engine="0"} 100
"""


def test_the_load_of_another_server_is_read_from_its_metrics(open_page: Any) -> None:
    page = open_page(view="chat", expected="404")
    page.route("**/playground/load", lambda route: route.fulfill(status=404, json={}))
    page.route("**/metrics", lambda route: route.fulfill(body=METRICS))
    page.get_by_role("link", name="Load").click()
    expect(page.locator("output").first).to_have_text("5 run, 1 wait")
    expect(page.get_by_text("Read from /metrics")).to_be_visible()
    expect(page.locator("output").nth(2)).to_have_text("25 %")


def test_a_part_that_cannot_serve_is_named(open_page: Any) -> None:
    page = open_page(view="chat")
    load = {
        "admitted": 0,
        "waiting": 0,
        "limit": 1,
        "tokens": {"prompt": 0, "cached": 0, "sampled": 0},
        "problems": {"engine": None, "store": "it is full"},
    }
    page.route("**/playground/load", lambda route: route.fulfill(json=load))
    page.get_by_role("link", name="Load").click()
    expect(page.get_by_text("The store: it is full.")).to_be_visible()


@pytest.fixture(scope="module")
def hiding() -> Any:
    options = ("--store", "memory", "--raw-reasoning", "hide", "--drain-seconds", "0")
    with running(*options) as server:
        yield server


def test_nothing_is_recorded_where_reasoning_is_hidden(open_page: Any, hiding: Server) -> None:
    page = open_page(hiding.url, expected="400")
    ask(page, "Hi")
    expect(page.locator(".answer strong")).to_have_text("How")
    expect(page.get_by_label("Record tokens for the inspector")).not_to_be_checked()
    page.get_by_role("button", name="Inspect").click()
    expect(page.get_by_role("alert")).to_contain_text("which this server hides")
