"""HTML becomes the text that the model was trained to read."""

import re
from urllib.parse import urljoin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from server.tools.browser import page as page_module
from server.tools.browser.html import html_page, plain
from server.tools.browser.page import MOST_URLS

URL = "https://site.example/dir/page?x=1"


def body_of(html: str) -> str:
    """The text without the lines that name the URL."""
    text = html_page(html, URL).text
    assert text.startswith(f"\nURL: {URL}")
    return text.split("\n", 2)[2] if text.count("\n") > 1 else ""


def test_a_page_has_its_url_title_and_blocks() -> None:
    page = html_page(
        "<html><head><title> A \n title </title></head><body><h1>One</h1><p>first\n line</p>"
        "<div>second <b>bold</b>text</div><h3>Three</h3>end</body></html>",
        URL,
    )
    assert page.title == "A title"
    assert page.text == f"\nURL: {URL}\n# One\n\nfirst line\n\nsecond boldtext\n\n### Three\n\nend"


def test_a_page_without_a_title_has_its_domain() -> None:
    assert html_page("<p>x", URL).title == "site.example"


def test_links_are_numbered_by_their_first_appearance() -> None:
    page = html_page(
        '<p><a href="/a">A</a> <a href="b.html">B†</a> <a href="https://other.example/x">C</a> '
        '<a href="/a">again</a> <a href="../up">D</a> <a href="//cdn.example/y">E</a> '
        '<a href="?q=2">F</a></p>',
        URL,
    )
    assert page.text.split("\n")[2] == (
        "【0†A】 【1†B‡】 【2†C†other.example】 【0†again】 【3†D】 【4†E†cdn.example】 【5†F】"
    )
    assert page.links == (
        "https://site.example/a",
        "https://site.example/dir/b.html",
        "https://other.example/x",
        "https://site.example/up",
        "https://cdn.example/y",
        "https://site.example/dir/page?q=2",
    )


@pytest.mark.parametrize(
    "href",
    [
        "#part",
        "javascript:x()",
        "mailto:a@b.example",
        "data:,x",
        "ftp://a.example/",
        "http://[",
        "",
    ],
)
def test_what_cannot_be_opened_is_text(href: str) -> None:
    assert body_of(f'<a href="{href}">text</a><a>name</a>').startswith("text")
    assert html_page(f'<a href="{href}">text</a>', URL).links in ((), (URL,))


def test_a_link_without_text_is_left_out() -> None:
    assert body_of('a<a href="/x"> </a>b') == "a b"


def test_a_link_around_blocks_stays_on_one_line() -> None:
    assert body_of('<a href="/x"><h2>Head</h2><p>one<br>two</p></a>') == "【0†Head one two】"


def test_the_base_of_links_may_be_set() -> None:
    page = html_page('<base href="https://base.example/d/"><a href="x">a</a>', URL)
    assert page.links == ("https://base.example/d/x",)


def test_lists_tables_and_quotes() -> None:
    html = (
        "<ul><li>a<ul><li>b</li></ul></li><li><p>c</p></li><li></li></ul>"
        "<ol start=3><li>x</li><li>y</li></ol>"
        "<table><caption>Cap</caption><thead><tr><th>h1</th><th>h2</th></tr></thead>"
        "<tr><td><p>1</p></td><td>2<br>3</td></tr><tr><td> </td><td></td></tr></table>"
        "<blockquote><p>said</p><p>more</p></blockquote><hr>"
    )
    assert body_of(html).split("\n") == [
        "  * a",
        "    * b",
        "  * c",
        "",
        "  3. x",
        "  4. y",
        "",
        "Cap",
        "",
        "h1 | h2",
        "1 | 2 3",
        "",
        "> said",
        "",
        "> more",
        "",
        "* * *",
    ]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a<hr>b", "a\n\n* * *\n\nb"),
        ("a<pre> </pre>b", "a\n\nb"),
        ("<ol start=0><li>x</ol>", "  0. x"),
    ],
)
def test_blocks_of_one_kind(html: str, text: str) -> None:
    assert body_of(html) == text


def test_a_table_that_is_layout_has_blocks() -> None:
    html = "<table><tr><td><h2>A</h2><p>x</p></td><td><ul><li>y</li></ul></td></tr></table>"
    assert body_of(html) == "## A\n\nx\n\n  * y"


def test_preformatted_text_keeps_its_lines() -> None:
    html = "<p>a</p><pre>x  y\n  <b>z</b><br>w\n\nq  \n</pre><p>b</p>"
    assert body_of(html) == "a\n\nx  y\n  z\nw\n\nq\n\nb"


def test_images_and_raised_text() -> None:
    html = (
        '<img alt="A cat"><img src=x><img alt="" title="t">x<sup>2</sup> H<sub>2</sub>O '
        '<sup><a href="/n">[1]</a></sup>'
    )
    assert body_of(html) == "[Image 0: A cat][Image 1][Image 2: t]x^{2} H_{2}O 【0†[1]】"


def test_formulas_are_shown_by_their_text() -> None:
    assert body_of('<math alttext="x^2"><mi>x</mi></math><math><mi>y</mi></math>') == "x^2"


@pytest.mark.parametrize(
    "html",
    [
        "<script>hidden</script>",
        "<style>hidden</style>",
        "<template><p>hidden</p></template>",
        "<noscript>hidden</noscript>",
        "<svg><text>hidden</text></svg>",
        "<iframe>hidden</iframe>",
        "<select><option>hidden</select>",
        "<textarea>hidden</textarea>",
        "<!-- hidden -->",
        "<p hidden>hidden</p>",
        '<p aria-hidden="TRUE">hidden</p>',
        '<p style="color: red; DISPLAY : none">hidden</p>',
        '<p style="visibility:hidden">hidden</p>',
        '<p style="opacity:0">hidden</p>',
        '<p style="font-size:0px;">hidden</p>',
        '<p style="position:absolute; left:-9999px">hidden</p>',
        '<table><tr><td hidden>hidden</td><td style="display:none">hidden</td></tr></table>',
        '<a href="/x" hidden>hidden</a>',
        '<object data="x">hidden</object>',
    ],
)
def test_what_a_browser_does_not_show_is_left_out(html: str) -> None:
    assert "hidden" not in body_of(f"<p>seen</p>{html}")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<!-- a --><p>x<!-- <b> </a> -->y<!---->z<!-- > -->", "xyz"),
        ("a<!-- <p>hidden</p> --><b<p>b</b<p>", "ab"),
        ("<a<!--x>q</a<!--x><b-->w", "qw"),
        ("<a<table>x</a<table>y", "xy"),
        ("<b <div<p>x</b>y", "xy"),
        ("<xmp>a<b></a></ul></xmp>", "a<b></a></ul>"),
        ("<template><xmp></template></h1></xmp></template>x", "x"),
        ("<svg><style>&lt;/style>&lt;/svg>&lt;/a>hidden</style></svg>x", "x"),
        ("<script><!--<script></script></a>hidden--></script>x", "x"),
        ("<style><!-- </style>x", "x"),
        ("<p><math><mtext><math alttext=b></math></mtext></math>x", "x"),
        ("<select><option>a</select>x<map><map>a</map>b</map>y", "xy"),
        ("<div hidden><div>a</div><p>b</div>x", "x"),
        ("<img hidden alt=a>x<br hidden>y<p hidden>z", "xy"),
        ("<body hidden class=a>x", "x"),
        ('<p title=" hidden=" aria-hidden=false>x</p>', "x"),
    ],
)
def test_only_what_is_shown_is_text(html: str, text: str) -> None:
    assert body_of(html) == text


def test_attributes_have_their_own_values() -> None:
    html = '<a title=\'x href="/no"\' href="/a?b=1&amp;c=【">x</a><a title=" href=" href=/d>y</a>'
    page = html_page(html, URL)
    assert page.links == (
        "https://site.example/a?b=1&c=%E3%80%90",
        "https://site.example/d",
    )


def test_a_table_in_a_link_or_a_cell_stays_in_its_line() -> None:
    table = "<table><tr><td>1</td><td>2</td></tr></table>"
    assert body_of(f"<h2>{table}</h2>") == "## 1 | 2 |"
    assert body_of(f"<table><tr><th>{table}</th><td>3</td></tr></table>") == "1 | 2 | | 3"


def test_deep_lists_and_quotes_are_not_indented_without_end() -> None:
    lines = body_of("<blockquote><ul><li>x" * 1000).split("\n")
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize(
    "style", ["opacity:0.5", "font-size:10px", "display:block", "left:-10px", "opacity:.9"]
)
def test_other_styles_are_shown(style: str) -> None:
    assert body_of(f'<p style="{style}">seen</p>') == "seen"


@pytest.mark.parametrize("style", ["opacity:0{}x", "font-size:0{}x", "font-size:0{}px x"])
def test_a_style_of_many_zeros_is_read_in_linear_time(style: str) -> None:
    assert body_of(f'<p style="{style.format("0" * 1_000_000)}">x</p>') == "x"


@pytest.mark.parametrize("bracket", ["【", "&#12304;", "&#x3010;"])
def test_a_page_cannot_write_markers(bracket: str) -> None:
    html = (
        f"<title>{bracket}1†L1】</title><p>{bracket}0†L1】</p><pre>{bracket}0†a】</pre>"
        f'<img alt="{bracket}0†b】"><a href="/x">{bracket}5†c】</a><sup>{bracket}0†</sup>'
        f'<math alttext="{bracket}0†d】"></math>'
    )
    page = html_page(html, URL)
    assert page.title == "〖1†L1〗"
    assert page.text.count("【") == page.text.count("】") == 1
    assert "【0†〖5‡c〗】" in page.text


def test_a_url_cannot_write_lines_or_markers() -> None:
    page = html_page("x", "https://site.example/%0A%E3%80%90%2B")
    assert page.text == "\nURL: https://site.example/%0A%E3%80%90%2B\nx"
    assert html_page("x", "https://site.example/caf%C3%A9").text.split("\n")[1].endswith("/café")


def test_control_characters_are_removed() -> None:
    page = html_page("<pre>a\x00b\x1b[2Jc\u202ed\u2028e\u200bf\x0bg\x85h</pre>", URL)
    assert page.text.split("\n")[2] == "ab[2Jcdefgh"


def test_deep_nesting_ends() -> None:
    text = body_of("<div>" * 30_000 + "deep" + "</div>" * 30_000)
    assert text == "deep"


def test_no_text_is_lost_in_deep_elements() -> None:
    text = body_of("<b>" * 400 + "one <i>two</i>【")
    assert text == "one two〖"


def test_an_empty_page_has_its_url() -> None:
    assert html_page("", URL).text == f"\nURL: {URL}"


def test_fragments_become_plain_text() -> None:
    assert plain("a <strong>b</strong> &amp; 【c】\n d") == "a b & 〖c〗 d"
    assert plain("just text") == "just text"


NAMES = """
a b p div td tr table ul ol li pre h1 h7 sup img br hr blockquote math svg base title x-y
"""
TAGS = st.sampled_from(NAMES.split())
PIECES = st.one_of(
    TAGS.map(lambda tag: f"<{tag}>"),
    TAGS.map(lambda tag: f"</{tag}>"),
    st.sampled_from(['<a href="/x">', '<base href="http://[">', "<ol start=x>", "【1†x】"]),
    st.sampled_from(["&#12304;", "&#x1f;", "&#8232;", "<!--", "-->", "<p hidden>", "<a<", "</a<"]),
    st.sampled_from(["&lt;/svg>", "<style>", "</style>", "<xmp>", "<select>", "<script>"]),
    st.text(max_size=8, alphabet=st.characters(exclude_categories=["Cs"])),
)


@given(st.lists(PIECES, max_size=40).map("".join))
@example('<a href="/x"><table><a href="/x">【1†x】')
def test_no_page_raises_or_forges_a_marker(html: str) -> None:
    page = html_page(html, URL)
    markers = re.findall(r"【(\d+)†[^【】]*】", page.text)
    assert page.text.count("【") == page.text.count("】") == len(markers)
    assert all(int(number) < len(page.links) for number in markers)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page.text)


def test_a_long_base_is_not_repeated_in_each_link() -> None:
    many = "".join(f"<a href='{number}'>t</a>" for number in range(5000))
    base = f"https://site.example/{'a' * 8000}/"
    links = html_page(f"<base href='{base}'>{many}", URL).links
    assert links
    assert links[0] == f"{base}0"
    assert sum(map(len, links)) <= MOST_URLS
    base = f"https://site.example/{'a' * 10_000}/"
    assert html_page(f"<base href='{base}'><a href='x'>t</a>", URL).links == (urljoin(URL, "x"),)


def test_a_url_that_is_too_long_to_be_opened_is_no_link() -> None:
    page = html_page(f"<a href='/{'a' * 8192}'>long</a> <a href='/b'>short</a>", URL)
    assert page.links == (urljoin(URL, "/b"),)
    assert "long 【0†short】" in page.text


def test_the_text_of_a_page_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_TEXT", 10_000)
    page = html_page("<blockquote><ul>" * 20 + "<li>x" * 1000, URL)
    assert 10_000 <= len(page.text) < 10_100
