"""Where answers link to files."""

from dataclasses import replace

import pytest

from server.outbound.responses.file_citations import file_citations
from server.tools.base import CreatedFile

FILE = CreatedFile("cntr_1", "cfile_1", "a.csv", "/mnt/data/a.csv")


@pytest.mark.parametrize("longer", ["a.csv.gz", "a.csv2", "a.csv-old", "a.csv/b", "a.csv%20b"])
def test_a_link_to_a_file_whose_name_goes_on_is_another_one(longer: str) -> None:
    text = f"[a](sandbox:/mnt/data/{longer}) [b](sandbox:/mnt/data/a.csv)"
    (citation,) = file_citations(text, [FILE])
    start, end = citation["start_index"], citation["end_index"]
    assert (start, text[start:end]) == (text.rindex("sandbox:"), "sandbox:/mnt/data/a.csv")


@pytest.mark.parametrize("after", ["", ")", ".", ". Next", ".)", ", and", '"', "?", "#top"])
def test_a_link_ends_where_the_sentence_goes_on(after: str) -> None:
    text = f"See sandbox:/mnt/data/a.csv{after}"
    (citation,) = file_citations(text, [FILE])
    assert text[citation["start_index"] : citation["end_index"]] == "sandbox:/mnt/data/a.csv"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a b.csv", "a%20b.csv"),
        ("a (1), 2.csv", "a%20%281%29%2C%202.csv"),
        ("a (1), 2.csv", "a%20(1),%202.csv"),
        ("Übersicht 2024.csv", "%C3%9Cbersicht%202024.csv"),
        ("Übersicht 2024.csv", "Übersicht%202024.csv"),
        ("ä.csv", "ä.csv"),
        ("a%20b", "a%20b"),
    ],
)
def test_a_link_may_have_the_path_as_in_a_url(name: str, written: str) -> None:
    text = f"See [the table](sandbox:/mnt/data/{written})."
    (citation,) = file_citations(text, [file_at(f"/mnt/data/{name}")])
    start, end = citation["start_index"], citation["end_index"]
    assert text[start:end] == f"sandbox:/mnt/data/{written}"


def test_a_link_is_to_the_file_of_exactly_its_path_if_there_is_one() -> None:
    found = file_citations("sandbox:/a%20b", [file_at("/a b"), file_at("/a%20b")])
    assert [(each["file_id"], each["start_index"]) for each in found] == [
        ("/a%20b", 0),
        ("/a b", 14),
    ]


def test_of_several_versions_of_a_file_the_last_is_cited() -> None:
    (citation,) = file_citations("Done.", [FILE, replace(FILE, file_id="cfile_2")])
    assert citation["file_id"] == "cfile_2"


def file_at(path: str) -> CreatedFile:
    return replace(FILE, path=path, file_id=path)


def test_the_first_link_to_each_file_is_cited_in_the_order_of_the_text() -> None:
    text = "sandbox:/b sandbox:/a b sandbox:/b sandbox:/c"
    found = file_citations(text, [file_at(path) for path in ("/a", "/a b", "/b", "/d")])
    ranges = [(each["file_id"], each["start_index"], each["end_index"]) for each in found]
    end = len(text)
    assert ranges == [("/b", 0, 10), ("/a", 11, 21), ("/a b", 11, 23), ("/d", end, end)]


def test_the_path_of_a_file_may_have_the_scheme_of_links() -> None:
    path = "/mnt/data/sandbox:/a"
    (citation,) = file_citations(f"sandbox:{path}", [file_at(path)])
    assert (citation["start_index"], citation["end_index"]) == (0, len(path) + 8)


def test_no_link_to_a_file_goes_beyond_the_end_of_the_text() -> None:
    text = "sandbox:/a"
    found = file_citations(text, [file_at("/a"), file_at("/long")])
    ranges = [(each["file_id"], each["start_index"], each["end_index"]) for each in found]
    assert ranges == [("/a", 0, 10), ("/long", 10, 10)]


@pytest.mark.parametrize(("others", "is_found"), [(49_999, True), (50_000, False)])
def test_links_after_very_many_others_are_not_looked_up(others: int, is_found: bool) -> None:
    """Each link may be to files whose paths have as many lengths as there are files."""
    before = "sandbox:/x " * others
    found = file_citations(f"{before}sandbox:/ab sandbox:/a", [file_at("/ab"), file_at("/a")])
    starts = [each["start_index"] for each in found]
    end = len(before) + len("sandbox:/ab sandbox:/a")
    assert starts == ([len(before), end] if is_found else [end, end])


def test_an_answer_without_files_cites_none() -> None:
    assert file_citations("sandbox:/a", []) == []
