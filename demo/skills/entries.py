"""Records that a function is to save: arguments from whole sentences, for training alone."""

from collections.abc import Sequence
from dataclasses import replace

from demo.skills import records
from demo.skills.case import Draw
from demo.skills.catalogue.asking import Declared, declare, fill_in
from demo.skills.phrases import worded
from demo.skills.tasks import Task
from demo.skills.words import aligned

_VERBS = ("save", "add", "store", "create", "log", "register", "enter", "file", "insert", "record",
          "submit", "put", "report", "note", "import", "keep", "write", "post")  # fmt: skip
_LEADS = (
    "[Save|Add|Store|Enter|Register|Note|File|Log|Put down|Write down|Record|Keep|Submit] [this|"
    "the following|that|a new one|one more|this entry|this for me][:|.|, please:| -] {}",
    "{} [Save|Add|Store|Enter|Register|Note|File|Log|Record|Keep] [this|that|it][.||, please.|!]",
    "[Please |Can you |Could you |][save|add|store|enter|note|log|record] [this|that|it|the "
    "following|what I say][:|:|.| -] {}",
    "[For the list|New entry|For the files|For our records|Next one|Here is another one|Input]: {}",
    "{} [Put it on the list|Please make an entry|That should go into the system|Into the database "
    "with it|Do not lose that|I want to keep this].",
)


def entry(draw: Draw, taken: Sequence[str] = ()) -> Task:
    """A task to save what a sentence says, by a function whose name is not `taken`."""
    while True:
        declared = declare(draw, records.kind(draw))
        name = _name(draw, declared)
        inner = any(parameter.type == "object" for parameter, _ in declared.fields)
        if name not in taken and aligned(name) and not inner:
            break
    request = draw.pick(declared.kind.requests)
    said, filled = fill_in(draw, declared, request, request.text)
    said = said if said[-1] in ".!?" else f"{said}."
    lead = worded(draw, draw.pick(_LEADS)) if draw.chance(0.85) else "{}"
    tool = declared.tool
    about = f"{draw.pick(_VERBS).capitalize()}: {tool.description}" if tool.description else None
    return Task(replace(tool, name=name, description=about), lead.replace("{}", said), filled)


def _name(draw: Draw, declared: Declared) -> str:
    return draw.pick((f"{draw.pick(_VERBS)}_{declared.tool.name}", declared.tool.name))
