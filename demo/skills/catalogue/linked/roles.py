"""Pairs of which one is the source: from and to, old and new."""

from demo.skills.case import Draw
from demo.skills.catalogue import related
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.catalogue.linked.making import POLITE, kind_of, names_of, thing_name
from demo.skills.phrases import worded

_FROM_TO = (
    "from {s} to {t}",
    "from {s} to {t}",
    "to {t} from {s}",
    "out of {s} into {t}",
    "{s} to {t}",
    "{s} -> {t}",
    "with {t} as the [target|end|goal], and {s} as the [start|origin|source]",
    "beginning at {s}, ending at {t}",
    "to {t}, [starting at|leaving from|coming from] {s}",
    "away from {s}, over to {t}",
    "between {s} and {t}",
    "from {s}. [It goes to|The target is|It must get to] {t}",
    "to {t}. [It is|It's still|Now it is] [at|in|with] {s}",
)
_BECOMES = (
    "[replace|swap] {s} [by|with] {t}",
    "[put|write|use] {t} [for|instead of|in place of] {s}",
    "[not|no longer] {s} but {t}",
    "{s} [becomes|should be|is now] {t}",
    "rename {s} to {t}",
    "{t} [replaces|takes the place of] {s}",
    "change [|all ]{s} into {t}",
    "where it says {s} it [should|must] say {t}",
)


def roles(draw: Draw) -> Kind:
    """Two values of one sort, and what is moved from one to the other."""
    becomes = draw.chance(0.35)
    first, second = (
        ("old|find|search|before|from|original|current|pattern|old_value",
         "new|replace_with|replacement|after|to|substitute|updated|new_value")
        if becomes
        else ("from|source|start|origin|src|from_place|begin|departure|sender",
              "to|target|end|destination|dst|to_place|goal|arrival|receiver")
    )  # fmt: skip
    source, target, what = names_of(
        draw, first, second, "item|thing|object|what|content|name|piece"
    )
    sort = draw.pick(("place", "word", "person", "title", "name", "path", "text", "date", "int"))
    sort = draw.pick(("word", "text", "title", "name", "passage")) if becomes else sort
    item = draw.chance(0.5) and not becomes
    parameters = [Parameter((source,), sort), Parameter((target,), sort)]
    if item:
        parameters.append(
            Parameter((what,), draw.pick(("text", "title", "word")), draw.chance(0.3))
        )
    # Two passages would be too long for a case of many exchanges.
    parameters = [
        Parameter(p.names, "text") if p.type == "passage" and draw.chance(0.5) else p
        for p in parameters
    ]
    verb = draw.pick(related.deeds())[1]

    def make() -> Request:
        if becomes:
            text = worded(draw, draw.pick(_BECOMES))
        else:
            one = f"{{{what}}}" if item else f"the {thing_name(draw)}"
            way = worded(draw, draw.pick(_FROM_TO))
            text = f"{worded(draw, POLITE)}{draw.pick(verb)} {one} {way}"
            if draw.chance(0.25):
                text = f"{way}: {one}"
        text = text.replace("{s}", f"{{{source}}}").replace("{t}", f"{{{target}}}")
        return Request(text)

    verbs = (
        "replace|substitute|rename|change|edit" if becomes else "move|send|shift|carry|plan|bring"
    )
    return kind_of(draw, verbs, tuple(thing_name(draw) for _ in range(3)), parameters, make)
