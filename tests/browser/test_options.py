"""The form of the options, and what is stored of it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_chat import ask
from tests.browser.test_runs import posted


def test_options_of_another_tab_are_not_overwritten(open_page: Any) -> None:
    first, second = open_page(), open_page()
    first.get_by_label("Instructions").fill("Be brief.")
    first.get_by_label("Instructions").blur()
    second.get_by_label("Temperature").fill("0.5")
    second.get_by_label("Temperature").blur()
    ask(second, "Hi")
    expect(second.get_by_text("tokens in")).to_be_visible()
    second.reload()
    expect(second.get_by_label("Instructions")).to_have_value("Be brief.")
    expect(second.get_by_label("Temperature")).to_have_value("0.5")


@pytest.mark.parametrize(
    ("label", "typed"),
    [
        ("Temperature", "5"),
        ("Seed", "1.5"),
        ("Seed", "12345678901234567890"),
        ("Seed", "1e"),
        ("Most tokens", "0"),
    ],
)
def test_a_number_that_the_server_would_refuse_is_named_and_nothing_is_sent(
    open_page: Any, label: str, typed: str
) -> None:
    page = open_page()
    bodies = posted(page)
    page.get_by_label(label).press_sequentially(typed)
    ask(page, "Hi")
    expect(page.locator(".options .error")).to_contain_text(f"{label}: ")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Hi")
    assert bodies == []


def test_a_number_between_two_steps_is_sent(open_page: Any) -> None:
    page = open_page()
    bodies = posted(page)
    page.get_by_label("Temperature").fill("0.75")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    assert bodies[0]["temperature"] == 0.75


def test_the_bar_has_the_chosen_model(open_page: Any) -> None:
    page = open_page()
    data = [{"id": name} for name in ("alpha", "beta")]
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": data}))
    page.reload()
    expect(page.locator("#model")).to_have_text("alpha")
    page.locator("select[name=model]").select_option("beta")
    expect(page.locator("#model")).to_have_text("beta")
    page.reload()
    expect(page.locator("#model")).to_have_text("beta")
