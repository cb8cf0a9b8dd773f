"""Amounts in one currency that are wanted in another."""

from functools import cache
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue.files import lines
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.catalogue.linked.making import POLITE, kind_of, names_of
from demo.skills.phrases import worded
from demo.skills.words import Split, names


@cache
def _currencies() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Codes, signs and words of currencies, read from `demo/data/currencies.txt`."""
    parts = (line.split(" ", 2) for line in lines("currencies.txt"))
    return tuple((code, sign, tuple(said.split("|"))) for code, sign, said in parts)


_EXCHANGES = (
    f"{POLITE}[convert|exchange|turn|swap|switch|recalculate|bring|translate] {{a}} {{s}} "
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


def money(draw: Draw) -> Kind:
    """An amount in one currency that is wanted in another."""
    amount, source, target = names_of(
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

    def make() -> Request:
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
        return Request(text.replace("{N}", draw.pick(names(Split.TRAIN))), given=tuple(given))

    verbs = "convert|exchange|calculate|get|compute|swap|quote|lookup|check"
    things = ("currency", "money", "rate", "exchange", "currencies", "amount", "fx", "cash",
              "exchange_rate", "forex")  # fmt: skip
    return kind_of(draw, verbs, things, parameters, make)
