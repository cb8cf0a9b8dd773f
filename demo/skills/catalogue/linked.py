"""Kinds of functions, made up for one case, whose values hang together: for training alone.

A list of columns and the one to sort by, two currencies of which one is the source, numbers with
their labels. What belongs to which parameter shows in small words alone, in any order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import related, series, spans
from demo.skills.catalogue.domains import values as named
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.phrases import worded
from demo.skills.words import Split, names, nouns, words

_REQUESTS = 3
_POLITE = "[||||please |can you |could you |I want you to |I need you to |now |then |kindly ]"


@dataclass
class _Made:
    """A request in the making: its text, and the values with what is said for them."""

    text: str
    given: list[tuple[str, Any, str]]

    def request(self) -> Request:
        return Request(self.text, "en", (), tuple(self.given))


def linked(draw: Draw) -> Kind:
    """A kind of its own."""
    makers = (_query, _query, _money, _plot, _plot, _roles, _translation, _translation)
    return draw.pick(makers)(draw)


def _kind(
    draw: Draw,
    verbs: str,
    things: Sequence[str],
    parameters: Sequence[Parameter],
    make: Callable[[], _Made],
) -> Kind:
    """The kind with a name of a verb and a thing, and requests that `make` makes."""
    verb, thing = worded(draw, f"[{verbs}]"), draw.pick(things)
    name = f"{verb}_{thing}" if draw.chance(0.8) else f"{thing}_{verb}"
    about = f"{verb.capitalize()} {draw.pick(('', 'the ', 'a '))}{thing.replace('_', ' ')}"
    ordered = list(parameters)
    if draw.chance(0.25):
        draw.rng.shuffle(ordered)
    requests = tuple(make().request() for _ in range(_REQUESTS))
    return Kind((name,), (about,), tuple(ordered), requests)


def _names(draw: Draw, *pools: str) -> list[str]:
    """A name out of each pool, all of them different."""
    while True:
        drawn = [draw.pick(pool.split("|")) for pool in pools]
        if len(set(drawn)) == len(drawn):
            return drawn


# Columns of a table.

_AND = (", ", ", ", " and ", ", and ", ",", " & ", " / ", "; ", "\n- ")
_OPERATORS = ("is", "is", "=", "==", ">", "<", ">=", "<=", "!=", "over", "under", "is not",
              "equals", "contains", "starts with", "is at least", "is below", "like", "before",
              "in", "after", "is above", "has", "does not contain")  # fmt: skip
_ORDER = (
    ("ascending", "[ascending|in ascending order|lowest first|smallest first|from A to Z|"
     "upwards|rising|asc|from low to high|oldest first]"),
    ("descending", "[descending|in descending order|highest first|largest first|from Z to A|"
     "downwards|falling|desc|from high to low|newest first]"),
)  # fmt: skip
_SHORT = {"ascending": "asc", "descending": "desc"}
_QUERIES = (
    f"{_POLITE}[show|list|fetch|get|give me|read|look up|pull|export|print|return] {{cols}} "
    "[of|from|for all|in|for every|out of] {table}",
    f"{_POLITE}[select|take|collect|extract] {{cols}} from [|the ]{{table}}[| table]",
    "[what are|which are|I need|I want|I'd like to see|we need] [|the ]{cols} [of|in|from] [|all ]"
    "{table}",
    "from {table}[|,|:] [I need|I want|get|take|show|only] {cols}",
    "{table}: {cols}",
    "{table}, [columns|fields|only] {cols}",
    "for [|all ]{table}, [show|give|list] {cols}",
)
_WHERE = ("where {cond}", "where {cond}", "with {cond}", "if {cond}", "only where {cond}",
          "whose {cond}", "filter: {cond}", "but only when {cond}", "given that {cond}",
          "(condition: {cond})", "restricted to {cond}", "for which {cond}")  # fmt: skip
_SORTED = ("[ordered|sorted|ranked|arranged] by {key}", "[order|sort|rank] [|them |it |that ]by "
           "{key}", "by {key}", "with {key} as the sort key", "in the order of {key}")  # fmt: skip
_TOP = ("top {n}", "the first {n}", "only {n} rows", "limit {n}", "at most {n}", "no more than {n}",
        "{n} of them", "the best {n}", "{n} entries", "max {n}", "the top {n} will do")  # fmt: skip


def _column(draw: Draw) -> str:
    roll = draw.rng.random()
    if roll < 0.3:
        return draw.pick(named("column", Split.TRAIN))
    if roll < 0.5:
        return f"{draw.pick(nouns(Split.TRAIN))}_{draw.pick(nouns(Split.TRAIN))}"
    if roll < 0.75:
        return draw.pick(nouns(Split.TRAIN))
    return spans.word(draw)


def _columns(draw: Draw, count: int) -> list[str]:
    made: list[str] = []
    while len(made) < count:
        one = _column(draw)
        if one not in made:
            made.append(one)
    return made


def _condition(draw: Draw, columns: Sequence[str]) -> str:
    key = draw.pick(columns) if draw.chance(0.4) else _column(draw)
    other = spans.word(draw)
    value = draw.pick((str(draw.rng.randint(0, 2000)), f"'{other}'", f"'{other}'", other,
                       f'"{other}"', draw.pick(names(Split.TRAIN)), "true", "not null",
                       f"20{draw.rng.randint(10, 30)}-{draw.rng.randint(10, 12)}-10"))  # fmt: skip
    return f"{key} {draw.pick(_OPERATORS)} {value}"


def _joined(draw: Draw, parts: Sequence[str]) -> str:
    """The parts as a list, in words or with marks."""
    between = draw.pick(_AND)
    if between in (", ", ", and ") and len(parts) > 1:
        last = draw.pick((" and ", ", and ", " & ", ", "))
        return ", ".join(parts[:-1]) + last + parts[-1]
    return between.join(parts)


def _query(draw: Draw) -> Kind:
    cols, table, cond, key, way, limit = _names(
        draw,
        "columns|fields|select|attributes|properties|cols|keys|wanted|outputs|field_names",
        "table|source|collection|entity|dataset|from_table|sheet|index|resource|kind",
        "filter|where|condition|filters|criteria|predicate|restriction|rule|match",
        "order_by|sort_by|sort|sort_key|sorted_by|order|rank_by|ordering",
        "direction|sort_order|order_dir|dir|sort_direction|sequence",
        "limit|top|max_rows|count|n|rows|first|take|page_size",
    )
    several = draw.chance(0.5)
    short = draw.chance(0.6)
    choices = tuple((_SHORT[v] if short else v, v) for v, _ in _ORDER)
    table_choices = draw.chance(0.15)
    tables = [draw.pick((_thing(draw), draw.pick(named("table", Split.TRAIN)))) for _ in range(4)]
    tables = list(dict.fromkeys(tables))
    optional = {
        cond: Parameter((cond,), "text[]" if several else "text", True),
        key: Parameter((key,), "word", True),
        way: Parameter((way,), "enum", True, choices),
        limit: Parameter((limit,), "int", True),
    }
    kept = [name for name in optional if draw.chance(0.75)]
    of = Parameter((table,), "word")
    if table_choices and len(tables) > 1:
        of = Parameter((table,), "enum", False, tuple((one, one) for one in tables))

    def make() -> _Made:
        drawn = _columns(draw, draw.pick((1, 2, 2, 2, 3, 3, 4)))
        one = draw.pick(tables)
        said = _joined(draw, drawn)
        if draw.chance(0.1):
            said = f"[{', '.join(drawn)}]" if draw.chance(0.8) else _joined(draw, drawn)
        given: list[tuple[str, Any, str]] = [(cols, drawn, said), (table, one, one)]
        text = worded(draw, draw.pick(_QUERIES))
        text = text.replace("{cols}", f"{{{cols}}}").replace("{table}", f"{{{table}}}")
        parts: list[str] = []
        if cond in kept and draw.chance(0.5):
            conditions = [_condition(draw, drawn) for _ in range(draw.pick((1, 1, 2)))]
            conditions = conditions if several else conditions[:1]
            value: Any = conditions if several else conditions[0]
            given.append((cond, value, " and ".join(conditions)))
            parts.append(draw.pick(_WHERE).replace("{cond}", f"{{{cond}}}"))
        if key in kept and draw.chance(0.5):
            by = draw.pick(drawn) if draw.chance(0.7) else _column(draw)
            given.append((key, by, by))
            order = worded(draw, draw.pick(_SORTED)).replace("{key}", f"{{{key}}}")
            if way in kept and draw.chance(0.7):
                value, said = draw.pick(_ORDER)
                given.append((way, _SHORT[value] if short else value, worded(draw, said)))
                order += draw.pick((" ", ", ")) + f"{{{way}}}"
            parts.append(order)
        if limit in kept and draw.chance(0.5):
            n = draw.rng.randint(1, draw.pick((10, 10, 50, 500)))
            given.append((limit, n, str(n)))
            parts.append(draw.pick(_TOP).replace("{n}", f"{{{limit}}}"))
        if draw.chance(0.3):
            draw.rng.shuffle(parts)
        for part in parts:
            text += draw.pick((" ", " ", ", ")) + part
        return _Made(text, given)

    parameters = [of, Parameter((cols,), "word[]"), *(optional[name] for name in kept)]
    if draw.chance(0.4):
        parameters.reverse()
    verbs = "query|select|fetch|list|read|get|report|export|find|scan|run"
    things = ("table", "rows", "data", "base", "query", "records", "columns", "entries", "sql")
    return _kind(draw, verbs, things, parameters, make)


def _thing(draw: Draw) -> str:
    return draw.pick(nouns(Split.TRAIN)) if draw.chance(0.5) else spans.word(draw)


# Amounts of money, and other things with a source and a target.


@cache
def _currencies() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Codes, signs and words of currencies, read from `demo/data/currencies.txt`."""
    text = resources.files("demo").joinpath("data", "currencies.txt").read_text("utf-8")
    lines = (line.split(" ", 2) for line in text.splitlines() if not line.startswith("#"))
    return tuple((code, sign, tuple(said.split("|"))) for code, sign, said in lines)


_EXCHANGES = (
    f"{_POLITE}[convert|exchange|turn|swap|switch|recalculate|bring|translate] {{a}} {{s}} "
    "[to|into|in] {t}",
    "how [many|much] {t} [are|do I get for|will I get for|would be|make|is|do we pay for|equals] "
    "{a} {s}",
    "[what|how much] [is|are|would be|makes] {a} {s} in {t}",
    "[how much is|what is the value of|what do you get for] {a} {s}[, in|, counted in|, if I pay "
    "in|, given in] {t}",
    "[how much|what sum] in {t} [is|are|makes] {a} {s}",
    "{a} {s} [in|to|->|as|=> ?|= how many|=] {t}",
    "{t} for {a} {s}",
    "from {s} to {t}: {a}",
    "{s} to {t}, {a}",
    "to {t} from {s}, [the amount is |it's |amount ||]{a}",
    "[it costs|the price is|they ask|I was paid|I owe|I earn|the bill says|we spent] {a} {s}[.|,|;"
    "| -] [what is that in|how much is it in|I think in|tell me in|I only know|give it to me in"
    "|I pay in] {t}",
    "I [need|want|would like|must have] {t}[,| and|;| but] [I hold|all I own is|I brought|in my "
    "wallet are|I can give] {a} {s}",
    "[the number of|the amount of|the sum in] {t} [for|that I get for|that equals] {a} {s}",
    "{a} of my {s} [should become|must be turned into|go into] {t}",
    "[value|worth|price] of {a} {s} [expressed in|in|measured in] {t}",
    "I [sell|give away|hand over] {a} {s} [and get|for|in return for] {t}",
    "I [buy|ask for|order] {t} [for|with|and pay] {a} {s}",
    "[a friend|my aunt|our boss|a client|{N}] [sent|gave|paid|lent|owes] me {a} {s}, how many {t} "
    "[is that|are those]",
    "out of {s} into {t}[,|:] {a}",
)
_RATES = (
    "[what is|tell me|look up|check] the [exchange |current |]rate [from|of] {s} [to|in] {t}",
    "how many {t} [is one of|do I get for one of] {s}",
    "{s}/{t}",
    "{s} [against|to|versus|in] {t}",
    "how [do|does] {s} stand against {t}",
)


def _money(draw: Draw) -> Kind:
    amount, source, target = _names(
        draw,
        "amount|value|total|money|quantity|amount_in|price|figure",
        "from|source|from_currency|base|source_currency|currency_from|sell|base_currency|given",
        "to|target|to_currency|quote|target_currency|currency_to|buy|dest_currency|output|result",
    )
    known = _currencies()
    as_code = draw.chance(0.85)
    pool = draw.rng.sample(known, draw.rng.randint(3, 6)) if draw.chance(0.45) else None
    choices = tuple((code, code) for code, _, _ in pool or ())
    about: tuple[str, ...]
    if not as_code and pool is None:
        about = ("The currency as the user says it", "Name of the currency", "In words")
    else:
        about = ("Currency code, e.g. XAU", "ISO 4217 code", "Three letters of the currency",
                 "Currency code", "ISO code of the currency", "The currency")  # fmt: skip
    said_of = draw.pick(about) if pool is None or draw.chance(0.3) else ""
    kind = "enum" if pool else "word"
    with_amount = draw.chance(0.85)
    parameters = [
        *([Parameter((amount,), draw.pick(("number", "number", "int")))] if with_amount else []),
        Parameter((source,), kind, False, choices, about=said_of),
        Parameter((target,), kind, False, choices, about=said_of),
    ]

    def make() -> _Made:
        one, other = draw.rng.sample(pool or known, 2)
        value = draw.rng.randint(1, draw.pick((9, 99, 99, 999, 20000)))
        given: list[tuple[str, Any, str]] = []
        if with_amount:
            given.append((amount, value, str(value)))
        text = worded(draw, draw.pick(_EXCHANGES if with_amount else _RATES))
        spoken = []
        for code, _, said in (one, other):
            word = code if draw.chance(0.2) else draw.pick(said)
            spoken.append((code if as_code or pool else word, word))
        if "{a} {s}" in text and len(one[1]) < 4 and draw.chance(0.25):
            sign = one[1]
            spoken[0] = (spoken[0][0] if as_code or pool else sign, sign)
            text = text.replace("{a} {s}", draw.pick(("{s}{a}", "{a}{s}", "{a} {s}")))
        given += [(source, *spoken[0]), (target, *spoken[1])]
        for mark, name in (("a", amount), ("s", source), ("t", target)):
            text = text.replace(f"{{{mark}}}", f"{{{name}}}")
        return _Made(text.replace("{N}", draw.pick(names(Split.TRAIN))), given)

    verbs = "convert|exchange|calculate|get|compute|swap|quote|lookup|check"
    things = ("currency", "money", "rate", "exchange", "currencies", "amount", "fx", "cash",
              "exchange_rate", "forex")  # fmt: skip
    return _kind(draw, verbs, things, parameters, make)


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


def _roles(draw: Draw) -> Kind:
    """Two values of one sort, and what is moved from one to the other."""
    becomes = draw.chance(0.35)
    first, second = (
        ("old|find|search|before|from|original|current|pattern|old_value",
         "new|replace_with|replacement|after|to|substitute|updated|new_value")
        if becomes
        else ("from|source|start|origin|src|from_place|begin|departure|sender",
              "to|target|end|destination|dst|to_place|goal|arrival|receiver")
    )  # fmt: skip
    source, target, what = _names(draw, first, second, "item|thing|object|what|content|name|piece")
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

    def make() -> _Made:
        if becomes:
            text = worded(draw, draw.pick(_BECOMES))
        else:
            one = f"{{{what}}}" if item else f"the {_thing(draw)}"
            way = worded(draw, draw.pick(_FROM_TO))
            text = f"{worded(draw, _POLITE)}{draw.pick(verb)} {one} {way}"
            if draw.chance(0.25):
                text = f"{way}: {one}"
        text = text.replace("{s}", f"{{{source}}}").replace("{t}", f"{{{target}}}")
        return _Made(text, [])

    verbs = (
        "replace|substitute|rename|change|edit" if becomes else "move|send|shift|carry|plan|bring"
    )
    return _kind(draw, verbs, tuple(_thing(draw) for _ in range(3)), parameters, make)


# Numbers with what belongs to them.

_PLOTS = (
    f"{_POLITE}[plot|draw|chart|show|graph|visualise|sketch|display|render] [|the |a chart of |the "
    "curve of |a diagram of ][|{name} |{name}: |{name} - ]{data}",
    "[make|create|build|I need|I want|give me] [a|one] [chart|diagram|plot|graph|picture] "
    "[of|for|from|with|out of] [|the {name} ]{data}",
    "{name}: {data}",
    "{name} [were|are|is|was] {data}[. Draw it|. Plot that|, draw a curve|, as a picture please]",
    "[these|here] are [my|the|our] {name}: {data}",
    "[I measured|we counted|we got|they noted|there were] {data} {name}",
    "{data} [as a chart|as a graph|drawn|on paper]",
    "[analyse|evaluate|process|study|check|summarise] [|the ][{name} |numbers |values |]{data}",
    "[what do you make of|how do you like|find the trend in] {data}",
)
_OVER = (
    "over {n} {unit}",
    "for {n} {unit}",
    "in {n} {unit}",
    "across {n} {unit}",
    "from the last {n} {unit}",
)
_LABELS = (
    "January|February|March|April|May|June|July|August|September|October|November|December",
    "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec",
    "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "Mon|Tue|Wed|Thu|Fri|Sat|Sun",
    "2019|2020|2021|2022|2023|2024|2025|2026",
    "A|B|C|D|E|F|G|H",
    "north|east|south|west",
    "week 1|week 2|week 3|week 4|week 5",
    "first|second|third|fourth|fifth",
)


def _labels(draw: Draw, count: int) -> list[str]:
    if draw.chance(0.5):
        known = draw.pick(_LABELS).split("|")
        if len(known) >= count:
            start = draw.rng.randint(0, len(known) - count)
            return known[start : start + count]
    pool = words(Split.TRAIN) if draw.chance(0.4) else ()
    return [draw.pick(pool) if pool else spans.word(draw) for _ in range(count)]


def _plot(draw: Draw) -> Kind:
    data, labels, head, way = _names(
        draw,
        "data|values|points|series|numbers|samples|y|figures|rows|readings|coordinates|dataset",
        "labels|categories|names|x_labels|legend|keys|ticks",
        "title|caption|heading|name|header|label",
        "kind|type|style|chart_type|mode|format",
    )
    shape = draw.pick(("number[]", "number[]", "number[][]", "number[][]", "int[]"))
    rows = shape == "number[][]"
    with_labels = not rows and draw.chance(0.4)
    kinds = draw.rng.sample(("bar", "line", "pie", "scatter", "area", "radar", "histogram"), 3)
    # What the parameter is about tells at times how its rows look.
    about = draw.pick(("", "", "Pairs of x and y", "List of [x, y]", "One row for each point"))
    parameters = [Parameter((data,), shape, about=about if rows else "")]
    if with_labels:
        parameters.append(Parameter((labels,), "word[]", draw.chance(0.5)))
    optional = [
        Parameter((head,), "title", True),
        Parameter((way,), "enum", True, tuple((one, one) for one in kinds)),
    ]
    parameters += [one for one in optional if draw.chance(0.6)]

    def make() -> _Made:
        text = worded(draw, draw.pick(_PLOTS))
        text = text.replace("{name}", " ".join(_thing(draw) for _ in range(draw.pick((1, 1, 2)))))
        text = text.replace("{data}", f"{{{data}}}")
        given: list[tuple[str, Any, str]] = []
        if with_labels and (not parameters[1].optional or draw.chance(0.5)):
            count = draw.rng.randint(2, 6)
            figures = series.values(draw, count, whole=shape == "int[]")
            called = _labels(draw, count)
            if draw.chance(0.5):
                form = draw.pick(("{} {}", "{}: {}", "{} = {}", "{} ({})", "{} with {}", "{}={}"))
                pairs = [form.format(a, b) for a, b in zip(called, figures, strict=True)]
                given = [(labels, called, ""), (data, figures, _joined(draw, pairs))]
            else:
                given = [(data, figures, series.listed(draw, figures)),
                         (labels, called, _joined(draw, called))]  # fmt: skip
                text += draw.pick((" for ", " across ", ", labels ", " (", " with the labels "))
                text += f"{{{labels}}}" + (")" if text.endswith("(") else "")
        elif draw.chance(0.25):
            unit = draw.pick(("days", "weeks", "months", "years", "hours", "rounds", "quarters"))
            over = draw.pick(_OVER).format(n=draw.rng.randint(2, 12), unit=unit)
            text += f" {over}"
        if optional[1] in parameters and draw.chance(0.4):
            text += draw.pick((" as a {}", ", as {}", " in a {} chart", ", {}", " ({})")).format(
                f"{{{way}}}"
            )
        if optional[0] in parameters and draw.chance(0.4):
            text += draw.pick((", titled {}", ", call it {}", ' with the title "{}"', ", under {}",
                               " and write {} above it")).format(f"{{{head}}}")  # fmt: skip
        return _Made(text, given)

    verbs = "plot|draw|chart|graph|render|show|analyze|compute|make|sum"
    things = ("chart", "graph", "series", "data", "points", "numbers", "plot", "curve", "values")
    return _kind(draw, verbs, things, parameters, make)


# A text and its languages.

_LANGUAGES: Mapping[str, str] = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian",
    "sv": "Swedish", "da": "Danish", "fi": "Finnish", "cs": "Czech", "tr": "Turkish",
    "ru": "Russian", "el": "Greek", "zh": "Chinese", "ko": "Korean", "ar": "Arabic",
    "he": "Hebrew", "hi": "Hindi", "uk": "Ukrainian", "ro": "Romanian", "hu": "Hungarian",
    "vi": "Vietnamese", "th": "Thai", "no": "Norwegian",
}  # fmt: skip
_INTO = (
    f"{_POLITE}[translate|put|turn|render|bring|convert] {{x}} [into|to] {{t}}",
    "[how do you say|what is|how would they say] {x} in {t}",
    "{x} in {t}, please",
    "into {t}: {x}",
    "[to|in] {t}: {x}",
    "[I need|I want|give me|write] the {t} version of {x}",
    "[say|repeat] {x} so that people who speak {t} understand",
    "{t} for {x}",
    "what does {x} [mean|say] in {t}",
    "{x} -> {t}",
    "my guests only speak {t}, so tell them {x}",
)
_OUT_OF = ("from {s} [in|]to {t}", "out of {s} into {t}", "into {t} from {s}", "({s} to {t})",
           "{s} -> {t}", "into {t}. It is {s}", "into {t}, the text is in {s}")  # fmt: skip


def _translation(draw: Draw) -> Kind:
    text, target, source = _names(
        draw,
        "text|content|input|passage|phrase|message|body|source_text|words|string|q|quote",
        "target|to|language|into|target_language|target_lang|lang|output_language|to_lang",
        "source|from|source_language|source_lang|from_language|origin|input_language",
    )
    codes = draw.chance(0.5)
    about = draw.pick(("Language code", "ISO 639-1 code", "Two letters of the language",
                       "Code of the language, e.g. la") if codes else
                      ("", "", "Name of the language", "The language, in English"))  # fmt: skip
    parameters = [
        Parameter((text,), "passage"),
        Parameter((target,), "word", about=about),
        Parameter((source,), "word", draw.chance(0.85), about=about),
    ]
    if draw.chance(0.4):
        del parameters[2]

    def make() -> _Made:
        said = draw.rng.sample(list(_LANGUAGES.items()), 2)
        given = [(name, code if codes else word, word)
                 for name, (code, word) in zip((target, source), said, strict=True)]  # fmt: skip
        both = len(parameters) > 2 and (not parameters[2].optional or draw.chance(0.35))
        if both:
            form = f"{worded(draw, _POLITE)}translate {{x}} {worded(draw, draw.pick(_OUT_OF))}"
        else:
            form, given = worded(draw, draw.pick(_INTO)), given[:1]
        for mark, name in (("x", text), ("t", target), ("s", source)):
            form = form.replace(f"{{{mark}}}", f"{{{name}}}")
        return _Made(form, given)

    verbs = "translate|render|convert|localize|say|interpret"
    things = ("text", "phrase", "sentence", "language", "message", "words", "passage")
    return _kind(draw, verbs, things, parameters, make)
