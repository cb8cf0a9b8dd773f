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


def test_of_several_versions_of_a_file_the_last_is_cited() -> None:
    (citation,) = file_citations("Done.", [FILE, replace(FILE, file_id="cfile_2")])
    assert citation["file_id"] == "cfile_2"
