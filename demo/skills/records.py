"""Kinds of records that people want to have as JSON, and sentences that hold their values.

The kinds are in the language of `catalogue.kinds`: a name, what it is, fields, sentences. In
training most kinds are composed (`demo.skills.composed`), and so are the ways to ask.
"""

from demo.skills import catalogue, composed
from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Kind
from demo.skills.phrases import capital, worded
from demo.skills.words import Split, nouns

WANTED = {
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
"""Ways to say that one wants the record, empty for a sentence that says nothing about it."""

_WHAT = (
    "[the|all|its|all the|these|any|the important|the relevant] [data|values|facts|fields|"
    "information|entries|particulars|properties|figures|parts|items|names and numbers]"
)
_THIS = "[this|it|that|the text|the sentence|the message|the note|everything|the above|what I said]"
_AS = (
    "[as JSON|in JSON|as an object|as data|in the given form|by the schema|in machine form|"
    "as a record|in the right format|in structured form|as key and value]"
)
_POLITE = "[|||Please |Can you |Could you please |I want you to |Now |Kindly |Just |You should ]"
_END = "[.|.|.|!||, please.|, thanks.]"
_COMPOSED = (
    _POLITE
    + "[extract|pull out|pick out|collect|list|note|write down|return|output|get|fetch|read "
    f"off|find|capture|gather|enter|store|keep|show|copy|show me|tell me] {_WHAT}[|| {_AS}]" + _END,
    f"{_POLITE}[convert|transform|parse|rewrite|map|bring|put|change|translate|format|serialise|"
    f"express|encode|dump|cast|file|log|record|write|render] {_THIS}[|| {_AS}]{_END}",
    f"[What would|How does] {_THIS} look {_AS}?",
    f"[I need|I want|I'd like|We need|Let me have|I would love|My boss wants|Our database needs] "
    f"[{_THIS}|{_WHAT}] {_AS}{_END}",
    "[JSON|Object|Record|Data|As JSON|Structured output|Only JSON|One object][, please|, thanks||"
    " by the schema| for the database]" + _END,
    f"[Which|What] [values|data|facts|entries|fields] [are in this|does it hold|do you find here|"
    f"does {_THIS} contain|are there|do I have to enter]?",
    "[Make|Create|Write|Build|Prepare|Produce|Generate|Draft|Compose] [an entry|a record|an object|"
    "JSON|a JSON object|one line of JSON|a dataset|a card|an index card] [|from it|of this|out of "
    "that|for me|from the text|for my list]" + _END,
    "[Fill in|Fill out|Complete|Populate|Use] [the form|the schema|the fields|the template|"
    "all fields|the record|my sheet][| with this| from that| for me| accordingly]" + _END,
    "[Add|Enter|Insert|Put] [this|it|that] [to|into|in] [the list|the table|the system|my database|"
    "our records|the {noun} list|the {noun} table]" + _END,
    f"{_WHAT}[, please|]:",
    "[Text|Input|Note|Message|Sentence|Source|Content|Document|Paragraph|Example|Entry|Mail"
    "|Quote]:",
    "[Here is|This is|Read|Look at|Parse|Process|Take] [a text|the text|the note|my note|a message|"
    "the sentence|what I got|an entry|what she wrote|today's line][ about a {noun}||]:",
)
_ASIDES = (
    "[Hi|Hello|Hey|Good morning|Hello there|Dear assistant|OK|Listen][.|!|,]",
    "[This|That|The note|The line] [came in today|is from a colleague|was in my inbox|is mine|"
    "was on the fridge|is what I heard|is short|is the last one]" + ".",
    "[It rained|It snowed|It was cold|I was tired|Nothing else happened|I was busy] [all day|"
    "yesterday|again|this week|the whole time].",
    "[Never mind|Forget about|Do not mind|Leave out|Skip] the {noun}.",
    "My {noun} [is here|is gone|does not matter|was fine|is another story].",
    "[Thanks|Thank you|Many thanks|Cheers|Great|Good|Fine|See you][.|!| in advance.]",
    "[I hope|I think|Maybe|Surely] [this helps|that is enough|you can read it|it is clear].",
    "[Somebody|A friend|My sister|The boss|My uncle] [told me|wrote it down|said so|knows].",
    "[Do not add anything|Nothing more|No comments|Keep the order|Be exact|Take your time].",
)
_KINDS_COMPOSED = 0.6
_PLAIN = 0.3
_ASIDE = 0.2
_QUOTED = 0.08


def kind(draw: Draw, sentences: int = 1) -> Kind:
    """A kind for a case; one that is composed has as many sentences as are needed."""
    if draw.split is Split.TRAIN and draw.chance(_KINDS_COMPOSED):
        return composed.kind(draw, sentences)
    return draw.pick(catalogue.RECORDS[draw.split])


def request(draw: Draw, said: str) -> str:
    """What a user writes: the text that holds the values, and mostly that a record is wanted."""
    if draw.split is Split.TRAIN and not draw.chance(_PLAIN):
        return _composed_request(draw, said)
    ending = draw.pick(WANTED[draw.split])
    if ending and said[-1].isalnum():
        said += "."
    return draw.pick((f"{said} {ending}", f"{said} {ending}", f"{ending} {said}")).strip()


def _composed_request(draw: Draw, said: str) -> str:
    """The text among other sentences, in quotes or below a line that says what it is."""
    ending = _with_noun(draw, draw.pick(_COMPOSED)) if draw.chance(0.8) else ""
    ending = capital(ending) if draw.chance(0.8) else ending
    if draw.chance(_QUOTED):
        quote = draw.pick(('"', "'", '"""', "```"))
        said = f"{quote}{said}{quote}"
    elif said[-1].isalnum() and not draw.chance(0.1):
        said += "."
    parts = [said]
    if draw.chance(_ASIDE):
        aside = _with_noun(draw, draw.pick(_ASIDES))
        parts.insert(draw.pick((0, 0, 1)), aside)
    if ending:
        parts.insert(0 if ending.endswith(":") or draw.chance(0.4) else len(parts), ending)
    return draw.pick((" ", " ", " ", "\n", "\n\n")).join(parts)


def _with_noun(draw: Draw, pattern: str) -> str:
    """One of the wordings of a pattern, with a noun for `{noun}`."""
    text = worded(draw, pattern)
    return text.replace("{noun}", draw.pick(nouns(draw.split))) if "{noun}" in text else text
