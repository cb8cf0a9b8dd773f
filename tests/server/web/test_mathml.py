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
