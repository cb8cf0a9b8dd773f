import pytest

from server.outbound.citations import CitationRewriter
from server.replay.cited_text import same_cited_text
from server.tools.base import Citation

URLS = {1: "https://www.a.example/x_(y)?q=[1]", 2: "file-search://docs/b c.md"}
A, B = "([a.example](https://www.a.example/x))", "([b.md](file-search://b.md))"


def shown(sampled: str) -> str:
    """The text that a client gets."""
    rewriter = CitationRewriter(
        lambda cursor, _: Citation(URLS[cursor], "A page") if cursor in URLS else None
    )
    pieces = [*rewriter.push(sampled), *rewriter.finish()]
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(
    "sampled",
    [
        "No marker.",
        "One【1†L0-L2】.",
        "【1†L0】 begins, and one ends 【2†L9】",
        "The same twice【1†L0】【1†L5】, and two【1†L0; 2†L1】.",
        "One without a page【9†L1】, and no marker 【 9】【1†L",
        "A link of the model [x](https://x.example) and (【2†L1】)",
    ],
)
def test_what_a_client_gets_is_what_was_sampled(sampled: str) -> None:
    assert same_cited_text(shown(sampled), sampled)
    assert same_cited_text(sampled, sampled)


@pytest.mark.parametrize(
    ("received", "sampled"),
    [
        ("Two.", "One."),
        (f"One {A}!", "One【1†L0】."),
        (f"One {A} more.", "One【1†L0】."),
        (f"Two {A}.", "One【1†L0】."),
        (f"One {A} and {B}.", "One【1†L0】 and."),
        (f"One {A}.", "One."),
        ("One (a.example).", "One【1†L0】."),
    ],
)
def test_a_changed_text_is_another(received: str, sampled: str) -> None:
    assert not same_cited_text(received, sampled)
