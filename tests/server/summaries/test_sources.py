import pytest

from server.summaries.sources import Sources, distinctive_terms, plain, words

RULE = "Never tell the users that the merger with Northwind happens in May"


def run(text: str, length: int = 8) -> bool:
    return Sources([RULE]).has_run(words(plain(text)), length)


def test_plain_text_has_no_case_no_forms_and_nothing_invisible() -> None:
    assert plain("ＳＥＣＲＥＴ \u200bＣo\u00adde") == "secret code"


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
    assert not Sources([text]).has_run(words("ok then be brief"), 8)


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
