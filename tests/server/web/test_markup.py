import json
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from server.web import mathml
from server.web.markup import MAX_ADDRESSES, MAX_LACKING, render

HOSTILE: list[str] = json.loads(
    (Path(__file__).parents[2] / "data/hostile.json").read_text(encoding="utf-8")
)
TEXT = {
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "div",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
}
ATTRIBUTES = {"class", "data-language", "href", "rel", "start", "target"}


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("source", HOSTILE)
def test_only_allowed_elements_and_attributes_come_out(source: str) -> None:
    reader = Reader()
    reader.feed(render(source))
    for tag, attributes in reader.found:
        assert tag in TEXT | mathml.ELEMENTS
        assert set(attributes) <= ATTRIBUTES | mathml.ATTRIBUTES
        assert (attributes.get("href") or "https://").startswith(("https://", "http://", "#"))


def test_markdown_becomes_html() -> None:
    html = render("# A\n\n**b** ~~c~~\n\n| x |\n|---|\n| 1 |\n")
    assert "<h1>A</h1>" in html
    assert "<strong>b</strong> <s>c</s>" in html
    assert "<td>1</td>" in html


def test_the_alignment_of_a_column_is_a_class() -> None:
    html = render("| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |")
    for name, cell in (("left", "1"), ("center", "2"), ("right", "3")):
        assert f'<td class="{name}">{cell}</td>' in html


def test_links_open_in_another_tab_and_name_no_referrer() -> None:
    html = render("[a](https://example.test/)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_code_has_colours_where_the_language_is_known() -> None:
    assert '<span class="hl-k">def</span>' in render("```python\ndef f(): ...\n```")
    assert render("```nonsense\na < b\n```") == (
        '<pre data-language="nonsense"><code>a &lt; b\n</code></pre>\n'
    )


@pytest.mark.parametrize("source", [r"\(x^2\)", "$x^2$", r"\[x^2\]", "$$x^2$$"])
def test_each_pair_of_marks_makes_a_formula(source: str) -> None:
    assert "<msup><mi>x</mi><mn>2</mn></msup>" in render(f"So {source} holds.")


@pytest.mark.parametrize("source", ["\\[\nx^2\n\\]", "$$\nx^2\n$$", "$$x^2$$", "\\[x^2\\]"])
def test_a_formula_of_its_own_line_is_a_block(source: str) -> None:
    assert render(source).startswith('<div class="formula"><math display="block" ')


def test_a_formula_may_follow_a_line_of_text() -> None:
    assert '<div class="formula">' in render("Hence\n\\[\nx\n\\]")


def test_text_after_a_formula_on_its_line_stays_text() -> None:
    html = render("\\[ a = b \\],\nand thus\n\\[ c = d \\]")
    assert "</math>,\nand thus</p>" in html
    assert html.count("<math") == 2


@pytest.mark.parametrize("source", ["\\[\na\n\\].", "$$\na\n$$,", "$$a$$ is one."])
def test_a_formula_ends_at_its_mark_although_text_follows(source: str) -> None:
    html = render(f"{source}\n\n## B\n\n\\[c\\]\n\n$$c$$")
    assert html.count("<math") == 3
    assert "<h2>B</h2>" in html


@pytest.mark.parametrize("between", ["\n+ b", "\n- b", "\n> b", "\n# b", "\n\nb"])
def test_lines_of_a_formula_are_no_markdown_although_text_follows(between: str) -> None:
    html = render(f"\\[\na{between}\n\\].\nMore")
    assert html.startswith('<p><math display="block" ')
    assert html.endswith("</math>.\nMore</p>\n")
    assert "<mi>b</mi>" in html


def test_dollars_before_text_are_no_formula_up_to_dollars_in_a_later_line() -> None:
    html = render("$$ is the shell's PID:\n\n- use `$$` in scripts\n- or not")
    assert "<math" not in html
    assert "<li>use <code>$$</code> in scripts</li>" in html


def test_two_pairs_of_dollars_without_a_formula_stay_text() -> None:
    assert render("$$$$ x") == "<p>$$$$ x</p>\n"


@pytest.mark.parametrize("source", ["It costs $5 or $6.", "$ x $", "$", "a \\$5 b", "$$\nx"])
def test_dollars_that_are_prices_stay_text(source: str) -> None:
    assert "<math" not in render(source)
    assert "$" in render(source)


@pytest.mark.parametrize("source", [r"\( ", r"\[ ", "\\[\n", "$$a\n", "\\[a\n\n", "> \\[\n"])
def test_formulas_that_nothing_closes_take_no_time_of_their_square(source: str) -> None:
    """A model, or anybody, may write 100,000 characters of them: that was minutes."""
    began = time.thread_time()
    render(source * (60_000 // len(source)))
    assert time.thread_time() - began < 8


def test_definitions_that_are_named_often_do_not_multiply_their_addresses() -> None:
    source = f"[a]: https://a.test/{'x' * 50_000}\n\n" + "[a]\n" * 10_000
    html = render(source)
    assert len(html) < MAX_ADDRESSES + 10 * len(source)
    assert (html.count("<a href="), html.count("<a>")) == (3, 9_997)


@pytest.mark.parametrize("count", [1, 50])
def test_cells_that_tables_lack_are_limited(count: int) -> None:
    columns = 250
    head = "|" + "a|" * columns + "\n|" + "-|" * columns + "\n"
    html = render((head + "a\n" * 250 + "\n") * count)
    assert columns < html.count("<td>") <= 2 * MAX_LACKING + 2 * columns


def test_lines_of_a_table_may_lack_cells() -> None:
    html = render("|a|b|c|\n|-|-|-|\n" + "|1|\n" * 500 + "\n|d|\n|-|\n|e|\n")
    assert (html.count("<td>"), html.count("<table>")) == (1_501, 2)
