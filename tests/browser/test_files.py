"""Files that code of an answer has written."""

import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_chat import ask, served, stream

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def answer(page: Page, text: str, *names: str) -> None:
    """Show `text`, which links to files of these names."""
    notes = []
    for name in names:
        link = f"sandbox:/mnt/data/{name}"
        start = text.find(link)
        end = start + len(link)
        file = {"container_id": "cntr_1", "file_id": f"cfile_{name}", "filename": name}
        note = {"type": "container_file_citation", "start_index": start, "end_index": end}
        notes.append({**note, **file})
    part = {"type": "output_text", "text": text, "annotations": notes}
    served(page, stream([{"id": "msg_1", "type": "message", "content": [part]}]))
    ask(page, "Compute")


def contents(page: Page, **answer: Any) -> None:
    page.route("**/v1/containers/cntr_1/files/*/content", lambda route: route.fulfill(**answer))


def is_content(request: Any) -> bool:
    return str(request.url).endswith("/content")


def test_a_file_is_saved_by_a_button(open_page: Any) -> None:
    page = open_page()
    contents(page, body="a,b\n1,2\n", content_type="text/csv")
    answer(page, "🌊 See the [*new* report](sandbox:/mnt/data/report.csv).", "report.csv")
    expect(page.locator(".prose p")).to_have_text("🌊 See the new report.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save report.csv").click()
    assert download.value.suggested_filename == "report.csv"
    assert Path(download.value.path()).read_text() == "a,b\n1,2\n"


def test_each_link_to_a_file_becomes_its_label(open_page: Any) -> None:
    page = open_page()
    link = "sandbox:/mnt/data/a (1).csv"
    answer(page, f'[one]({link}), [two](<{link}> "Title"), []({link})', "a (1).csv")
    expect(page.locator(".prose p")).to_have_text("one, two, a (1).csv")
    expect(page.get_by_role("button", name="Save")).to_have_count(1)


def test_a_picture_is_shown(open_page: Any) -> None:
    page = open_page()
    contents(page, body=PICTURE, content_type="application/octet-stream")
    answer(page, "![The plot](sandbox:/mnt/data/plot.PNG)", "plot.PNG")
    expect(page.locator(".prose p")).to_have_text("The plot")
    picture = page.get_by_role("img", name="plot.PNG")
    expect(picture).to_have_js_property("naturalWidth", 1)
    expect(page.get_by_role("button", name="Save plot.PNG")).to_be_visible()


def test_a_large_picture_is_only_saved(open_page: Any) -> None:
    page = open_page()
    contents(page, body=PICTURE + bytes(8 * 2**20))
    with page.expect_response("**/content"):
        answer(page, "Done: sandbox:/mnt/data/plot.png", "plot.png")
    with page.expect_download():
        page.get_by_role("button", name="Save plot.png").click()
    expect(page.get_by_role("img", name="plot.png")).to_have_count(0)


def test_a_picture_is_read_when_it_comes_into_view(open_page: Any) -> None:
    page = open_page()
    contents(page, body=PICTURE)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if is_content(request) else None)
    note = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}
    long = {"type": "output_text", "text": "Words.\n\n" * 100}
    drawn = {"type": "output_text", "text": "", "annotations": [{**note, "filename": "a.png"}]}
    parts = [long, drawn, long]
    items = [
        {"id": f"msg_{n}", "type": "message", "content": [part]} for n, part in enumerate(parts)
    ]
    served(page, stream(items))
    ask(page, "Compute")
    expect(page.locator(".block p")).to_have_count(200)
    assert asked == []
    page.get_by_role("button", name="Save a.png").scroll_into_view_if_needed()
    expect(page.get_by_role("img", name="a.png")).to_be_visible()


@pytest.mark.parametrize("name", [None, "x.constructor"])
def test_a_file_may_have_any_name(open_page: Any, name: str | None) -> None:
    page = open_page()
    note = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}
    part = {"type": "output_text", "text": "Done.", "annotations": [{**note, "filename": name}]}
    served(page, stream([{"id": "msg_1", "type": "message", "content": [part]}]))
    ask(page, "Compute")
    expect(page.get_by_role("button", name=f"Save {name or 'cfile_1'}")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_text("")


def test_a_file_that_is_gone_is_said_in_words(open_page: Any) -> None:
    page = open_page(expected="404")
    error = {"error": {"message": "Container 'cntr_1' not found.", "type": "", "code": None}}
    contents(page, status=404, json=error)
    answer(page, "Done: sandbox:/mnt/data/a.csv", "a.csv")
    page.get_by_role("button", name="Save a.csv").click()
    expect(page.get_by_role("alert")).to_contain_text("The server no longer has this file")
