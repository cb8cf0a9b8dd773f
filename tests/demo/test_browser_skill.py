"""The browser's cases: displays as the server's, answers that their lines support."""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from demo.skills import browser
from demo.skills.browser import docs, varied
from demo.skills.browser.display import Page, markdown_page, show, wrap
from demo.skills.browser.facts import draw_articles, forms
from demo.skills.browser.site import Session, Site, is_telling
from demo.skills.case import Case, Draw
from demo.skills.words import Split
from demo.transcript import transcript
from harmony.messages import Effort, Message, Role
from harmony.tokenizer import encode
from server.tools.browser import lines as server_lines
from server.tools.browser.page import Page as ServerPage
from server.tools.browser.search.base import SearchResult
from server.tools.browser.search.index import FolderIndex
from server.tools.browser.session import _results_page
from tests.demo.drawing import drawn

Maker = Callable[[Draw], Case]
MARKER = re.compile(r"^(.+) 【(\d+)†L(\d+)】\.$")


def messages(case: Case) -> list[Message]:
    after = [m for turn in case.turns for m in (*turn.messages, *turn.results)]
    return [*case.history, *after]


def made(split: Split, count: int) -> list[Case]:
    return [browser.case(drawn(seed, split)) for seed in range(count)]


def test_lines_end_where_the_server_ends_them() -> None:
    rng = Random(5)
    parts = [
        "a",
        "word",
        "well-known",
        "--cache-size",
        "x" * 90,
        "`a/b`",
        "  ",
        "no.",
        "1-2",
        "é-é",
    ]
    for _ in range(300):
        text = " ".join(rng.choice(parts) for _ in range(rng.randint(0, 40)))
        assert wrap(text) == server_lines.wrap(text)


def test_pages_of_markdown_are_displayed_as_by_the_server() -> None:
    for split in Split:
        for article in draw_articles(drawn(2, split), 4, (4, 30)):
            page = article.page
            for start, count in ((0, 0), (0, 20), (2, 5)):
                assert show(3, page, start, count).text == server_display(3, page, start, count)


def server_display(cursor: int, page: Page, start: int, count: int) -> str:
    lines = server_lines.wrap(page.text)
    end = min(start + count, len(lines)) if count else server_lines.view_end(lines, start)
    shown = ServerPage(page.url, page.title, page.text, page.links)
    return server_lines.display(cursor, shown, lines, start, end)


@pytest.mark.parametrize("split", Split)
def test_facts_state_their_value_and_questions_do_not(split: Split) -> None:
    assert len(forms(split)) >= 8
    for form in forms(split):
        slot = f"{{{form.value}}}"
        assert all(slot in sentence for sentence in form.sentences)
        assert not [question for question in form.questions if slot in question]


def test_no_sentence_and_no_question_about_facts_is_in_both_splits() -> None:
    train, held_out = (
        {text for form in forms(split) for text in (*form.sentences, *form.questions)}
        for split in Split
    )
    assert not train & held_out


@pytest.fixture(scope="module")
def server_index(tmp_path_factory: pytest.TempPathFactory) -> FolderIndex:
    index = FolderIndex(docs.FOLDER, tmp_path_factory.mktemp("index") / "docs.sqlite")
    index.refresh()
    return index


@pytest.mark.parametrize("query", ["PostgreSQL store", "cancel response", "zzyzx", "tool limits"])
def test_search_results_are_the_servers(query: str, server_index: FolderIndex) -> None:
    url = "file-search://gpt-oss-server/{}".format
    paths = sorted(docs.FOLDER.glob("*.md"))
    site = Site([markdown_page(url(p.name), p.read_text("utf-8")) for p in paths])
    hits = server_index.search(query, 3)
    found = [SearchResult(url(hit.path), hit.title, hit.summary) for hit in hits]
    page, _ = _results_page(query, found)
    lines = server_lines.wrap(page.text)
    expected = server_lines.display(0, page, lines, 0, server_lines.view_end(lines, 0))
    assert Session(site).search(query)[2].text == expected


def test_documents_become_the_servers_pages() -> None:
    from server.tools.browser.documents import markdown_page as server_page

    for path in docs.FOLDER.glob("*.md"):
        url, text = f"file-search://gpt-oss-server/{path.name}", path.read_text("utf-8")
        mine, theirs = markdown_page(url, text), server_page(text, url)
        assert (mine.title, mine.text, mine.links) == (theirs.title, theirs.text, theirs.links)


@pytest.mark.parametrize("pattern", ["store", "the", "no such words"])
def test_find_results_are_the_servers(pattern: str) -> None:
    path = docs.FOLDER / "storage.md"
    url = "file-search://gpt-oss-server/storage.md"
    session = Session(Site([markdown_page(url, path.read_text("utf-8"))]))
    session.open(url)
    page = session.displays[0].page
    matches = server_lines.find(server_lines.wrap(page.text), pattern)
    parts = [f"# 【{n}†match at L{m.line}】\n{m.text}" for n, m in enumerate(matches)]
    text = "\n\n".join(parts) or f"No `find` results for pattern: `{pattern}`"
    title = f"Find results for text: `{pattern}` in `{page.title}`"
    found = Page(f"{url}/find?pattern={pattern}", title, text)
    display = session.find(pattern)[2]
    assert display.text == server_display(1, found, 0, 0)


def many(case: Maker, drill: Maker, split: Split = Split.TRAIN) -> list[Case]:
    return [
        *(case(drawn(i, split)) for i in range(80)),
        *(drill(drawn(i, split)) for i in range(8)),
    ]


MANY: dict[str, Callable[[], list[Case]]] = {
    **{split: partial(many, browser.case, browser.drill, split) for split in Split},
    "varied": partial(many, varied.case, varied.drill),
}


@pytest.mark.parametrize("cases", MANY.values(), ids=MANY)
def test_answers_are_words_of_the_line_that_they_cite(cases: Callable[[], list[Case]]) -> None:
    cited = 0
    for case in cases():
        shown: dict[int, dict[int, str]] = {}
        said = [turn.messages[-1] for turn in case.turns if turn.messages[-1].recipient is None]
        # A line below the view is shown by `find` alone.
        is_below = any(m.recipient == "browser.find" for m in messages(case))
        for message in messages(case):
            text = str(message.content)
            if message.author.role is Role.TOOL and text.startswith("["):
                cursor, lines = read(text)
                shown[cursor] = lines
            answer = MARKER.match(text) if message in said else None
            if answer and not is_below:
                words, cursor, line = answer[1], int(answer[2]), int(answer[3])
                assert words in shown[cursor][line].replace("…", "")
                assert 4 <= len(words.split()) <= 10
                cited += 1
    assert cited > 80


def read(text: str) -> tuple[int, dict[int, str]]:
    """The cursor of a display, and its lines without the markers of links."""
    lines = re.findall(r"^L(\d+): (.*)$", re.sub(r"【\d+†([^†】]+)[^】]*】", r"\1", text), re.M)
    return int(text[1 : text.index("]")]), {int(number): line for number, line in lines}


@pytest.mark.parametrize("split", Split)
def test_calls_are_of_the_kinds_that_the_skill_names(split: Split) -> None:
    kinds: Counter[str] = Counter()
    for case in made(split, 240):
        calls = [m for t in case.turns for m in t.messages if m.recipient]
        kinds["/".join(str(m.recipient) for m in calls if "browser" in str(m.recipient))] += 1
        for message in calls:
            assert isinstance(json.loads(str(message.content)), dict)
    assert kinds["browser.search"] > 120
    assert kinds["browser.search/browser.open"] > 8
    assert [kind for kind in kinds if kind.endswith("browser.open/browser.find")]
    assert [kind for kind in kinds if kind.endswith("browser.open/browser.open")]
    assert kinds[""] > 4


def test_a_query_has_the_telling_words_of_the_question() -> None:
    for case in made(Split.TRAIN, 40):
        first = case.turns[0].messages[-1]
        if first.recipient == "browser.search":
            query = json.loads(str(first.content))["query"].split()
            question = str(case.history[-1].content)
            assert all(word in question and is_telling(word) for word in query)


def test_cases_are_short_and_their_reasoning_grows_with_the_effort() -> None:
    for seed in range(25):
        by_effort = [browser.case(drawn(seed, effort=effort)) for effort in Effort]
        for turns in zip(*(case.turns for case in by_effort), strict=True):
            low, medium, high = (len(encode(str(turn.messages[0].content))) for turn in turns)
            assert medium >= 2 * low
            assert high >= 2 * medium
        assert max(len(transcript(case).ids) for case in by_effort) <= 1920


def test_it_works_without_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert docs.site(Split.TRAIN, tmp_path) is None
    monkeypatch.setattr(docs, "site", lambda split: None)
    assert {case.skill for case in made(Split.TRAIN, 20)} == {"browser"}
