"""Citation markers become links with ranges, however the text is split."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import TokenLogprobs
from server.outbound.citations import MOST_MARKER, CitationRewriter, CitedText, rewriters
from server.replay.cited_text import same_cited_text
from server.tools.base import Citation, ToolDeclaration
from tests.server.tools.hosted import PYTHON, SEARCH, Session

SOURCES = {
    0: Citation("https://www.lisboa.pt/a?b=c", "Lisboa"),
    6: Citation("https://en.wikipedia.org/wiki/Rust_(fungus)", "Rust"),
    12: Citation("https://example.com/【x】 y", "Brackets"),
}
LISBOA = "([lisboa.pt](https://www.lisboa.pt/a?b=c))"
RUST = "([en.wikipedia.org](https://en.wikipedia.org/wiki/Rust_%28fungus%29))"


def resolve(cursor: int, line: int | None) -> Citation | None:
    return SOURCES.get(cursor)


def rewritten(*pieces: str, annotates: bool = True) -> tuple[str, list[CitedText], int]:
    """The text, the links, and the number of dropped markers."""
    rewriter = CitationRewriter(resolve, annotates=annotates)
    parts = [part for piece in pieces for part in rewriter.push(piece)]
    parts += rewriter.finish()
    links = [part for part in parts if part.citation is not None]
    return "".join(part.text for part in parts), links, rewriter.dropped


def text_of(*pieces: str) -> str:
    return rewritten(*pieces)[0]


def test_a_marker_becomes_a_link_with_its_range() -> None:
    text, (link,), dropped = rewritten("A fact【0†L9-L11】. More")
    assert text == f"A fact {LISBOA}. More"
    assert link.text == LISBOA
    citation = link.citation
    assert citation is not None
    assert (citation.url, citation.title) == ("https://www.lisboa.pt/a?b=c", "Lisboa")
    assert text[citation.start : citation.end] == LISBOA
    assert dropped == 0


def test_a_source_is_cited_again_after_other_text() -> None:
    assert text_of("a【0†L1】 and b【0†L2】") == f"a {LISBOA} and b {LISBOA}"


def test_offsets_count_code_points() -> None:
    text, (link,), _ = rewritten("𝄞😀é【0†L1】")
    assert link.citation is not None
    assert (link.citation.start, link.citation.end) == (4, 4 + len(LISBOA))
    assert text[link.citation.start : link.citation.end] == LISBOA


def test_a_space_is_added_only_where_there_is_none() -> None:
    assert text_of("【0†L1】") == LISBOA
    assert text_of("a 【0†L1】") == f"a {LISBOA}"
    assert text_of("a\n【0†L1】") == f"a\n{LISBOA}"


@pytest.mark.parametrize(
    "marker",
    [
        "【6†L9】",
        "【6†L9-L11】",
        "【6†L9–L11】",
        "【6†L9—L11】",
        "【6†L9－L11】",
        "【6†L9-11】",
        "【6†L9, L20-L30】",
        "【6†L9；L20】",
        "【 6†L9 】",
        "【６†Ｌ9】",
        "【6†title†example.com】",
        "【6†】",
        "【6†L1-L3】【6†L9】",
    ],
)
def test_forms_of_one_source_become_one_link(marker: str) -> None:
    assert text_of(f"x{marker}y") == f"x {RUST}y"


@pytest.mark.parametrize(
    "marker", ["【0†L1】【6†L2】", "【0†L1, 6†L2】", "【0†L1 6†L2】", "【0†L1】【0†L4】【6†L2】"]
)
def test_lists_of_sources_become_several_links(marker: str) -> None:
    assert text_of(f"x{marker}") == f"x {LISBOA} {RUST}"


def test_the_line_is_passed_on() -> None:
    asked: list[tuple[int, int | None]] = []

    def record(cursor: int, line: int | None) -> Citation | None:
        asked.append((cursor, line))
        return None

    rewriter = CitationRewriter(record)
    rewriter.push("【0†L12-L14】【3†title】【5†7】")
    assert asked == [(0, 12), (3, None), (5, 7)]


def test_an_unknown_cursor_is_dropped_and_counted() -> None:
    text, links, dropped = rewritten("【99†L1】ab【0†L1】【98†x】")
    assert (text, len(links), dropped) == (f"ab {LISBOA}", 1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "【注意】 text",
        "【6】",
        "【L9】",
        "【6†a【0",
        "【6†line\nbreak】",
        "【1234567†L1】",
        "【6†" + "x" * MOST_MARKER + "】",
        "open 【6†L",
        "open 【",
        "close 】 †",
        "【【【",
    ],
)
def test_other_brackets_stay(text: str) -> None:
    assert text_of(text) == text
    assert text_of(*text) == text


def test_a_bracket_before_a_marker_stays() -> None:
    assert text_of("【【0†L1】】") == f"【 {LISBOA}】"


def test_urls_cannot_break_the_link() -> None:
    text, (link,), _ = rewritten("【12†L1】")
    assert text == "([example.com](https://example.com/%E3%80%90x%E3%80%91%20y))"
    assert link.citation is not None
    assert link.citation.url == "https://example.com/【x】 y"


def link_to(url: str) -> str:
    (link,) = CitationRewriter(lambda cursor, line: Citation(url, "t")).push("【0†L1】")
    return link.text


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://[x", "([source](https://[x))"),
        ("https:///a", "([source](https:///a))"),
        ("file-search://docs/a%20b/tools.md", "([tools.md](file-search://docs/a%20b/tools.md))"),
        ("file-search://docs/", "([docs](file-search://docs/))"),
        ("file-search://d/a%60%5B<%5C.md", "([a____.md](file-search://d/a%60%5B%3C%5C.md))"),
        ("https://[::1]/a\u00a0b\x0bc", "([::1](https://[::1]/a%C2%A0b%0Bc))"),
    ],
)
def test_any_url_becomes_a_link(url: str, link: str) -> None:
    assert link_to(url) == link


@given(st.text())
def test_a_link_comes_back_as_the_marker(url: str) -> None:
    assert same_cited_text(f"a {link_to(url)}.", "a【0†L1】.")


def test_the_first_tool_that_knows_a_source_is_cited() -> None:
    citing = replace(SEARCH, cites=True)
    sessions = [Source(PYTHON, "no"), Source(citing), Source(citing, "b"), Source(citing, "c")]
    make = rewriters(sessions, json=False)
    assert make is not None
    assert [part.text for part in make().push("【0†L1】")] == ["([b](https://b))"]
    no_links = rewriters(sessions, json=True)
    assert no_links is not None
    assert no_links().push("【0†L1】") == []
    assert rewriters(sessions[:1], json=False) is None


class Source(Session):
    """A session in which each marker cites a host, if it has one."""

    def __init__(self, declared: ToolDeclaration, host: str | None = None) -> None:
        super().__init__(declared)
        self.host = host

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        return None if self.host is None else Citation(f"https://{self.host}", "t")


def test_json_answers_have_no_markers() -> None:
    text, links, _ = rewritten('{"a": "b【0†L1】【99†L1】"}', annotates=False)
    assert (text, links) == ('{"a": "b"}', [])


def test_no_more_than_a_marker_is_withheld() -> None:
    rewriter = CitationRewriter(resolve)
    given_out = 0
    for count, character in enumerate("【6†" + "x" * 500, 1):
        given_out += sum(len(part.text) for part in rewriter.push(character))
        assert count - given_out < MOST_MARKER
    assert given_out == 503


def test_text_without_brackets_is_not_withheld() -> None:
    assert CitationRewriter(resolve).push("plain") == [CitedText("plain")]


def test_logprobs_of_withheld_text_come_with_the_next_piece() -> None:
    first, second, third, fourth = ((TokenLogprobs(token, -1.0),) for token in range(4))
    rewriter = CitationRewriter(resolve)
    assert rewriter.push("【0†", first) == []
    pieces = rewriter.push("L1】 a", second)
    assert [(piece.text, piece.logprobs) for piece in pieces] == [
        (LISBOA, first + second),
        (" a", ()),
    ]
    assert rewriter.push("【99†L1】", third) == []
    assert not rewriter.add_plain(" b")
    assert rewriter.push(" b", fourth) == [CitedText(" b", logprobs=third + fourth)]
    assert rewriter.add_plain(" c")
    assert rewriter.finish() == []


def test_logprobs_that_no_piece_had_come_with_a_last_one_without_text() -> None:
    rewriter, logprobs = CitationRewriter(resolve), (TokenLogprobs(0, -1.0),)
    assert rewriter.push("【99†L1】", logprobs) == []
    assert rewriter.finish() == [CitedText("", logprobs=logprobs)]
    assert rewriter.finish() == []


FRAGMENTS = st.sampled_from(
    (
        *(
            "【",
            "】",
            "†",
            "0",
            "6",
            "99",
            "L",
            "-",
            "–",
            "L1",
            ", ",
            " ",
            "\n",
            "a",
            "𝄞",
            "x" * 130,
        ),
        *("【0†L1】", "【6†L9-L11】", "【99†L1】", "【0†L1】【0†L2】", "【注】", "text"),
    )
)


@given(st.lists(FRAGMENTS, max_size=12).map("".join), st.data())
def test_the_result_does_not_depend_on_the_split(text: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    whole = rewritten(text)
    assert rewritten(*pieces) == whole
    assert rewritten(*text) == whole
    for link in whole[1]:
        assert link.citation is not None
        assert whole[0][link.citation.start : link.citation.end] == link.text
