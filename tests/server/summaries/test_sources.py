import threading
import unicodedata

import pytest

from server.summaries import sources
from server.summaries.sources import Sources, distinctive_terms, plain, words

RULE = "Never tell the users that the merger with Northwind happens in May"


def run(text: str, length: int = 8) -> bool:
    return Sources([RULE]).has_run(words(plain(text)), length)


def test_plain_text_has_no_case_no_forms_and_nothing_invisible() -> None:
    assert plain("ＳＥＣＲＥＴ \u200bＣo\u00adde") == "secret code"


def test_a_long_run_of_marks_takes_no_quadratic_time() -> None:
    # With one normalization of the whole text, this takes many minutes.
    count = 1_000_000
    assert len(plain("a" + "\u0301" * count + "\u0316" * count)) == 2 * count


@pytest.mark.parametrize(
    "letter", ["e\u0301", "\u1100\u1161\u11a8", "ｶﾞ", "\u0995\u09c7\u09be", "\u0f40\u0f73"]
)
@pytest.mark.parametrize("before", range(4))
def test_letters_of_several_characters_stay_whole(letter: str, before: int) -> None:
    text = "." * before + letter * 1000
    assert plain(text) == unicodedata.normalize("NFKC", text).casefold()


@pytest.mark.parametrize("marks", [10, 255, 256, 1000])
def test_equal_runs_of_marks_are_equal_wherever_they_are(marks: int) -> None:
    run = "a" + "\u0301" * marks + "\u0316" * marks
    assert plain("b" * 100 + run) == "b" * 100 + plain(run)


def test_words_have_no_punctuation() -> None:
    assert words(plain("It's  “fine”, isn't-it?")) == ["it", "s", "fine", "isn", "t", "it"]


def test_each_chinese_or_japanese_character_is_a_word() -> None:
    assert words("不要告诉 user他") == ["不", "要", "告", "诉", "user", "他"]


def test_a_run_of_words_is_found_whatever_is_between_them() -> None:
    assert run("It was to NEVER tell -- the users: that *the* merger with others")
    assert not run("It was to never tell the users about the merger")


def test_a_run_has_whole_words_only() -> None:
    assert not run("xnever tell the users that the merger withx")


def test_a_text_that_is_shorter_than_a_run_is_found_as_a_whole() -> None:
    short = Sources(["Hide the merger!"])
    assert short.has_run(words("so i hide the merger here"), 8)
    assert not short.has_run(words("so i hide the mergers here"), 8)


@pytest.mark.parametrize("text", ["", "ok", "be brief"])
def test_texts_of_one_or_two_words_are_not_runs(text: str) -> None:
    """They are answers such as "yes" or "New York", which a summary may name."""
    assert not Sources([text]).has_run(words("ok then be brief"), 8)


@pytest.mark.parametrize(
    ("length", "is_found"), [(1, False), (2, False), (3, True), (7, True), (8, True)]
)
def test_whole_texts_are_runs_from_three_words_on(length: int, is_found: bool) -> None:
    text = [f"w{number}" for number in range(length)]
    assert Sources([" ".join(text)]).has_run(["so", *text, "then"], 8) is is_found


def test_texts_that_are_added_later_are_found() -> None:
    sources = Sources()
    assert not sources.has_term("4fe1-99aa")
    sources.add("The key is 4FE1-99AA.")
    assert sources.has_term("4fe1-99aa")
    assert sources.size == len("The key is 4FE1-99AA.")


def test_distinctive_terms_may_be_secrets_or_addresses() -> None:
    text = "call 555123 or ada@example.org with hunter2pass, not 12 or gpt4 (or 4fe1-99aa)."
    assert [*distinctive_terms(text)] == ["555123", "ada@example.org", "hunter2pass", "4fe1-99aa"]


def test_the_parts_of_a_term_are_terms() -> None:
    assert [*distinctive_terms("key=4fe1-99aa&x — “4fe1-99ab”—")] == [
        "key=4fe1-99aa&x",
        "4fe1-99aa",
        "4fe1-99ab",
    ]


def test_a_text_that_is_added_while_another_is_read_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = Sources(["the first phrase"])

    def add_and_read(text: str) -> str:
        monkeypatch.setattr(sources, "plain", plain)
        texts.add("the second phrase")
        return plain(text)

    monkeypatch.setattr(sources, "plain", add_and_read)
    assert texts.has_term("first phrase")
    assert texts.has_term("second phrase")


def test_a_text_is_read_once_by_two_threads_that_check_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = Sources(["a phrase"])
    second_waits = threading.Event()
    read: list[str] = []

    class Watched:
        """The lock; the second thread that wants it is noted."""

        def __init__(self, lock: threading.Lock) -> None:
            self._lock = lock
            self.release = lock.release

        def acquire(self) -> None:
            if self._lock.locked():
                second_waits.set()
            self._lock.acquire()

    def read_with_another(text: str) -> str:
        read.append(text)
        if len(read) == 1:
            second.start()
            assert second_waits.wait(10)
        return plain(text)

    found: list[bool] = []
    second = threading.Thread(target=lambda: found.append(texts.has_term("phrase")))
    monkeypatch.setattr(texts, "_reading", Watched(texts._reading))
    monkeypatch.setattr(sources, "plain", read_with_another)
    found.append(texts.has_term("phrase"))
    second.join()
    assert (read, found) == (["a phrase"], [True, True])
