import re

import pytest

from server.web.mathml import MAX_TEX, mathml


def test_a_formula_is_inline_or_a_block() -> None:
    inline = '<math display="inline" data-tex="x"><mrow><mi>x</mi></mrow></math>'
    assert mathml("x", block=False) == inline
    assert mathml("x", block=True).startswith('<math display="block"')


def test_a_formula_has_its_source() -> None:
    assert 'data-tex="a &lt; &quot;b&quot;"' in mathml('a < "b"', block=False)


def test_text_is_escaped_and_links_are_dropped() -> None:
    assert "&lt;img" in mathml(r"\text{<img>}", block=False)
    assert "href=" not in mathml(r"\href{javascript:a}{x}", block=False)


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{a}",
        r"\begin{nonsense}",
        "x" * (MAX_TEX + 1),
        "{" * 400 + "<" + "}" * 400,
        r"\sqrt{" * 90 + "x" + "}" * 90,
    ],
    ids=["argument", "environment", "long", "deep", "nested"],
)
def test_what_is_no_formula_is_shown_as_its_source(tex: str) -> None:
    shown = mathml(tex, block=False)
    assert shown.startswith(('<code class="tex">', "<math"))
    assert len(shown) < 20_000


def cells(tex: str) -> list[list[str]]:
    """The texts of the cells of the first table of `tex`, row by row."""
    html = mathml(tex, block=True)
    rows = re.findall("<mtr>(.*?)</mtr>", html.partition("<mtable")[2])
    return [
        [re.sub("<.*?>", "", cell) for cell in re.findall("<mtd.*?>(.*?)</mtd>", row)]
        for row in rows
    ]


@pytest.mark.parametrize(
    "name", ["aligned", "align*", "split", "alignedat}{2", "equation", "nonsense"]
)
def test_lines_have_columns_in_each_environment(name: str) -> None:
    end = name.partition("}")[0]
    found = cells(rf"x = \begin{{{name}}} a &= b \\ c &= d \end{{{end}}}")
    assert found == [["a", "=b"], ["c", "=d"]]


@pytest.mark.parametrize(
    "tex",
    [
        r"a \\ b",
        r"a \\ b \\",
        r"a \\[4pt] b",
        r"\begin{gathered}[t] a \\ b \end{gathered}",
        r"\begin{align*} a \\[-0.5em] b \end{align*}",
        r"\displaystyle a \\ b",
        r"\frac{a \\ b}{c}",
    ],
)
def test_lines_stay_lines(tex: str) -> None:
    assert cells(tex) == [["a"], ["b"]]


def test_columns_are_aligned_at_their_signs() -> None:
    html = mathml(r"\begin{aligned} a &= b \end{aligned}", block=True)
    assert '<mtd columnalign="right"><mi>a</mi></mtd>' in html
    assert '<mtd columnalign="left"><mi></mi><mo>=</mo><mi>b</mi></mtd>' in html


def test_lines_of_a_table_within_a_line_are_its_own() -> None:
    html = mathml(
        r"\begin{aligned} \begin{matrix} 1 \\ 2 \end{matrix} &= v \end{aligned}", block=True
    )
    assert html.count("<mtable") == 2
    assert html.count("<mtr>") == 3


def test_signs_in_a_text_are_no_columns() -> None:
    html = mathml(r"\text{a \\ b & c} \& d", block=True)
    assert "<mtable" not in html
    assert re.sub("<.*?>", "", html) == "a\xa0\\\\\xa0b\xa0&amp;\xa0c&amp;d"


def test_a_column_outside_of_lines_is_shown_as_its_source() -> None:
    assert mathml(r"\frac&b", block=False) == r'<code class="tex">\frac&amp;b</code>'


def test_boxes_and_strikes_are_classes_which_the_page_draws() -> None:
    box = '<mrow class="box"><mrow><mn>42</mn></mrow></mrow>'
    assert box in mathml(r"\boxed{42}", block=False)
    strikes = '<mrow class="updiagonalstrike downdiagonalstrike">'
    assert strikes in mathml(r"\xcancel{x}", block=False)
