"""The varied training cases of the browser: how they come to answers; nothing is held out."""

import json
import re
from collections import Counter

from demo.evaluate import over_http
from demo.skills.browser import docs, varied
from demo.skills.browser.display import Display, Page
from demo.skills.browser.facts import forms
from demo.skills.browser.pages import all_forms, draw_place
from demo.skills.browser.quotes import ranked, stating
from demo.skills.browser.site import telling
from demo.skills.words import Split, split_of
from demo.transcript import transcript
from harmony.messages import Effort
from harmony.tokenizer import encode
from tests.demo.drawing import drawn


def display(*lines: str) -> Display:
    page = Page("", "title", "")
    return Display(0, page, ("", "URL: ", *lines), 0, len(lines) + 2)


def test_there_are_hundreds_of_kinds_of_facts_and_none_is_held_out() -> None:
    assert len(all_forms()) > 250
    held_out = {
        text.lower()
        for form in forms(Split.HELD_OUT)
        for text in (*form.sentences, *form.questions)
    }
    trained = {text.lower() for form in all_forms() for text in (*form.sentences, *form.questions)}
    assert not trained & held_out
    assert not trained & {question.lower() for question, _ in over_http._QUESTIONS}


def test_sentences_state_the_value_and_questions_do_not() -> None:
    for form in all_forms():
        slot = f"{{{form.value}}}"
        assert all(slot in sentence for sentence in form.sentences), form
        assert not any(slot in question for question in form.questions), form


def test_no_question_of_a_site_is_asked_twice() -> None:
    for seed in range(20):
        asked = [one.core.lower() for one in draw_place(drawn(seed)).stated]
        assert len(asked) == len(set(asked))


def test_all_ways_to_an_answer_occur() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(250):
        case = varied.case(drawn(seed))
        calls = [m for turn in case.turns for m in turn.messages if m.recipient]
        assert all(isinstance(json.loads(str(m.content)), dict) for m in calls)
        kinds["/".join(str(m.recipient).removeprefix("browser.") for m in calls)] += 1
        kinds["nothing"] += str(case.turns[-1].messages[-1].content).startswith("I found nothing")
    assert kinds["search"] > 120
    assert kinds["search/open"] > 10
    assert kinds["open"] > 2
    assert kinds["nothing"] > 15


def test_a_search_has_the_words_of_the_question_alone() -> None:
    for seed in range(60):
        case = varied.case(drawn(seed))
        first = case.turns[0].messages[-1]
        if first.recipient == "browser.search":
            query = json.loads(str(first.content))["query"].split()
            assert query == telling(" ".join(query))
            assert all(word in str(case.history[-1].content) for word in query)


def test_cases_fit_and_each_effort_reasons_twice_as_long_as_the_one_before() -> None:
    for seed in range(60):
        single, drill = (
            [make(drawn(seed, effort=effort)) for effort in Effort]
            for make in (varied.case, varied.drill)
        )
        assert max(len(transcript(case).ids) for case in (*single, *drill)) <= 1920
        turns = [case.turns for case in single]
        if len({len(one) for one in turns}) == 1:
            for same in zip(*turns, strict=True):
                low, medium, high = (len(encode(str(t.messages[0].content))) for t in same)
                assert medium >= 2 * low
                assert high >= 2 * medium


def test_the_line_with_most_words_is_the_best_then_the_one_whose_neighbours_have_others() -> None:
    shown = display(
        "A store in this process's memory, with limits",
        "on count and size. The store in a database:",
        "a file of SQLite, or a PostgreSQL server.",
    )
    assert [one.line for one in ranked(shown, ["PostgreSQL", "store"])] == [4, 3, 2]
    shown = display("It has the port and more.", "The address and port of the host are set.")
    assert ranked(shown, ["set", "port"])[0].line == 3


def test_a_sentence_is_not_quoted_where_another_line_fits_the_question_better() -> None:
    sentence, words = "The limit of Quem is 40 files.", ["limit", "files", "Quem"]
    found = stating(display(sentence, "Quem opens at noon on Monday."), sentence, "40", words)
    assert found is not None
    assert (found.line, found.text) == (2, "The limit of Quem is 40 files")
    other = display("The sum of Quem is 40 books.", "The limit of all Quem files is large.")
    assert stating(other, "The sum of Quem is 40 books.", "40", words) is None


def test_questions_about_the_documentation_are_about_words_of_its_training_pages() -> None:
    site = docs.site(Split.TRAIN)
    assert site is not None
    assert all(split_of(page.url.rsplit("/", 1)[-1]) is Split.TRAIN for page in site.pages)
    asked = {docs.ask(drawn(seed), site) for seed in range(200)}
    assert len(asked) > 190
    assert not asked & {question for question, _ in over_http._QUESTIONS}


def test_renamed_documentation_has_its_lines_with_other_words() -> None:
    site = docs.site(Split.TRAIN)
    assert site is not None
    known = {word for page in site.pages for word in re.findall(r"[A-Za-z]{4,}", page.body)}
    text = "\n".join(page.body for s in range(6) for page in docs.renamed(drawn(s), site).pages)
    new = [word not in known for word in re.findall(r"[A-Za-z]{4,}", text)]
    assert sum(new) > 0.2 * len(new)
    assert "|---|" in text
    assert docs.renamed(drawn(1), site).pages == docs.renamed(drawn(1), site).pages
