"""Kinds of records that people want to have as JSON, and sentences that hold their values.

The kinds are in the language of `catalogue.kinds`: a name, what it is, fields, sentences.
"""

from demo.skills import catalogue
from demo.skills.catalogue.kinds import Kind
from demo.skills.words import Split

_WANTED = {
    Split.TRAIN: (
        "Give me the data.",
        "Give me that as JSON.",
        "Extract the data.",
        "What are the values?",
        "Put it in the form.",
        "Make a record of it.",
        "Fill in the schema.",
        "",
        "",
    ),
    Split.HELD_OUT: ("Give me the details.", "Turn this into JSON.", "Save it as data.", ""),
}


def kinds(split: Split) -> tuple[Kind, ...]:
    """The kinds that cases of a split may use."""
    return catalogue.TRAINING_RECORDS if split is Split.TRAIN else catalogue.UNSEEN_RECORDS


def wanted(split: Split) -> tuple[str, ...]:
    """Ways to say that one wants the record, empty for a sentence that says nothing about it."""
    return _WANTED[split]
