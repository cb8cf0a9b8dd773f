import re
import time

import pytest

from server.web.markup import render


def links(text: str) -> list[tuple[str, str]]:
    """The address and the text of each link."""
    return re.findall('<a href="(.*?)".*?>(.*?)</a>', render(text))


@pytest.mark.parametrize("mark", ["<br>", "<br/>", "<br />"])
def test_a_cell_has_lines(mark: str) -> None:
    assert "<td>x<br />\ny</td>" in render(f"| a |\n|---|\n| x{mark}y |")


@pytest.mark.parametrize("source", ["<br class=a>", "<BR onload=a>", "`<br>`", "\\<br>", "<hr>"])
def test_other_html_is_shown_as_text(source: str) -> None:
    assert re.search("&lt;.*&gt;", render(source))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "See {}.",
        "({})",
        "**{}**",
        "_{}_",
        "看{}。好",
        '"{}"',
        "- {}",
        "| a |\n|---|\n| {} |",
        "{}, and",
        "<{}>",
        "Is it {}?",
    ],
)
def test_a_bare_address_is_a_link(text: str) -> None:
    url = "https://example.com/a_b/(c)?d=e#f"
    assert links(text.format(url)) == [(url, url)]


def test_two_addresses_are_two_links() -> None:
    assert [text for _, text in links("http://a.b,\nhttps://c.d")] == ["http://a.b", "https://c.d"]


def test_an_address_is_encoded_and_shown_as_it_is_read() -> None:
    assert links("https://a.test/ä") == [("https://a.test/%C3%A4", "https://a.test/ä")]


@pytest.mark.parametrize(
    "text",
    ["`https://a.b`", "xhttps://a.b", "ftp://a.b", "https://", "https:// a", "javascript://a"],
)
def test_what_is_no_address_stays_text(text: str) -> None:
    assert links(text) == []


def test_an_address_within_a_link_is_its_text() -> None:
    assert links("[https://a.b](https://c.d)") == [("https://c.d", "https://a.b")]


@pytest.mark.parametrize("source", ["https://a", "a://", "https://)", "[https://", "https://a,("])
def test_many_addresses_take_no_time_of_their_square(source: str) -> None:
    began = time.thread_time()
    render(source * (60_000 // len(source)))
    assert time.thread_time() - began < 8


def test_tasks_have_boxes() -> None:
    html = render("- [ ] a\n- [x] *b*\n- c")
    assert '<li class="task">☐ a</li>' in html
    assert '<li class="task">☑ <em>b</em></li>' in html
    assert "<li>c</li>" in html


@pytest.mark.parametrize("source", ["[ ] a", "- a [ ] b", "- [ ](https://a.b)", "- a\n\n  [ ] b"])
def test_brackets_elsewhere_are_no_boxes(source: str) -> None:
    assert not re.search("[☐☑]", render(source))
