import json
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_chat import ask

OPENING = """
async (count) => {
  const base = document.querySelector("script").src;
  const { readTokens, TokenPane } = await import(base.replace("main.js", "tokens.js"));
  const ids = Array.from({ length: count }, (_, index) => 1000 + (index % 5000));
  const hex = ids.map(() => "20616263");
  const pane = new TokenPane("Tokens", () => {}, () => {});
  document.getElementById("view").append(pane.element);
  pane.show(readTokens(ids, hex, true));
  return [pane.element.children.length, pane.indexOf(pane.elementAt(count - 1))];
}
"""


def test_the_prompt_of_a_request_is_shown_token_by_token(open_page: Any) -> None:
    page = open_page(view="inspector")
    page.get_by_label("Request (JSON").fill(json.dumps({"input": "Grüße 🤖🏽", "text": {}}))
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.locator(".t.control").first).to_have_text("<|start|>")
    expect(page.locator(".t.user.body").first).to_have_text("Gr")
    assert page.locator(".t.user.body").all_text_contents() != []
    assert "".join(page.locator(".t.user.body").all_text_contents()) == "Grüße 🤖🏽"
    expect(page.get_by_role("heading", name="Grammar")).to_be_visible()


def test_a_token_is_explained_under_the_pointer_and_by_keys(open_page: Any) -> None:
    page = open_page(view="inspector")
    page.get_by_role("button", name="Show the prompt").click()
    page.locator(".t.control").first.hover()
    tip = page.locator(".tip")
    expect(tip).to_contain_text("id 200006")
    expect(tip).to_contain_text("Begins a message.")
    page.locator(".tokens").focus()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("position 1")


def test_a_malformed_completion_is_shown_with_its_repairs(open_page: Any) -> None:
    page = open_page()
    ask(page, "malformed, please")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Inspect").click()
    expect(page.locator(".repair").first).to_be_visible()
    expect(page.locator(".messages")).to_contain_text("missing start")
    expect(page.locator(".t.analysis.body").first).to_be_visible()


def test_sampled_tokens_have_their_alternatives(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Log probabilities").select_option("5")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Inspect").click()
    page.locator(".tokens").last.locator(".t.final.body").first.hover()
    expect(page.locator(".tip .bar-row")).to_contain_text("100.0 %")
    expect(page.locator("svg.plot")).to_be_visible()


def test_pasted_harmony_is_parsed(open_page: Any) -> None:
    page = open_page(view="inspector")
    field = page.get_by_label("Harmony text or token ids")
    field.fill("<|channel|>final<|message|>Yes<|return|>")
    page.get_by_role("button", name="Parse").click()
    expect(page.locator(".messages .card")).to_contain_text("Yes")
    field.fill("[200005, 17196, 200008, 13022]")
    page.get_by_role("button", name="Parse").click()
    expect(page.locator(".messages .repair")).to_have_text("not complete")


def test_two_prompts_are_compared(open_page: Any) -> None:
    page = open_page(view="inspector")
    page.get_by_label("Request (JSON").fill('{"input": "one and two"}')
    page.get_by_label("Request to compare with").fill('{"input": "one or two"}')
    page.get_by_role("button", name="Compare the prompts").click()
    expect(page.get_by_text("Then they differ.")).to_be_visible()
    assert page.locator(".t.different").all_text_contents() == [" and", " or"]


def test_kinds_of_messages_are_filtered(open_page: Any) -> None:
    page = open_page(view="inspector")
    page.get_by_role("button", name="Show the prompt").click()
    shown = page.locator(".t.system").first
    expect(shown).to_be_visible()
    page.get_by_role("button", name="system", exact=True).click()
    expect(shown).to_be_hidden()


def test_an_error_is_said_in_words(open_page: Any) -> None:
    page = open_page(view="inspector", expected="404")
    page.get_by_label("Request (JSON").fill("{nonsense")
    page.get_by_role("button", name="Show the prompt").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not JSON")
    page.get_by_label("Stored response").fill("resp_none")
    page.get_by_role("button", name="Show its tokens").click()
    expect(page.get_by_role("alert")).to_contain_text("not found")


def test_many_tokens_are_in_chunks(open_page: Any) -> None:
    page = open_page(view="inspector")
    assert page.evaluate(OPENING, 100_000) == [250, 99_999]


def test_the_load_is_plotted(open_page: Any) -> None:
    page = open_page(view="load")
    expect(page.get_by_text("The engine and the store can serve.")).to_be_visible()
    expect(page.locator("output").first).to_contain_text("0 of")
    expect(page.locator("svg.plot")).to_have_count(2)
