"""Plots: numbers with their labels."""

from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import series, spans
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.catalogue.linked.making import POLITE, joined, kind_of, names_of, thing_name
from demo.skills.phrases import worded
from demo.skills.words import Split, words

_PLOTS = (
    f"{POLITE}[plot|draw|chart|show|graph|visualise|sketch|display|render] [|the |a chart of |the "
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
    "[a|one] [chart|plot|graph|diagram] [of|for|from|with] [these|the|my] [points|numbers|values|"
    "data|figures][:|] {data}",
    f"{POLITE}[plot|draw|chart|graph] [these|the|my|our] [points|numbers|values|data|figures]: "
    "{data}",
)
_AXES = (
    "x label {x} and y label {y}",
    "x label {x}, y label {y}",
    "the x axis is {x}, the y axis {y}",
    "{x} on the x axis and {y} on the y axis",
    "{y} over {x}",
    "with {x} along the bottom and {y} at the side",
)
_ACROSS = ("label x as {x}", "x axis: {x}", "{x} on the x axis", "the x axis says {x}", "x = {x}")
_UP = ("label y as {y}", "y axis: {y}", "{y} on the y axis", "the y axis says {y}", "y = {y}")
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
_NAMES = (
    "data|values|points|series|numbers|samples|y|figures|rows|readings|coordinates|dataset",
    "labels|categories|names|x_labels|legend|keys|ticks",
    "title|caption|heading|name|header|label",
    "kind|type|style|chart_type|mode|format",
    "x_label|x_axis|xlabel|xTitle|x_title|horizontal|x_name",
    "y_label|y_axis|ylabel|yTitle|y_title|vertical|y_name",
)
_VERBS = "plot|draw|chart|graph|render|show|analyze|compute|make|sum"
_THINGS = ("chart", "graph", "series", "data", "points", "numbers", "plot", "curve", "values")


def _labels(draw: Draw, count: int) -> list[str]:
    if draw.chance(0.5):
        known = draw.pick(_LABELS).split("|")
        if len(known) >= count:
            start = draw.rng.randint(0, len(known) - count)
            return known[start : start + count]
    pool = words(Split.TRAIN) if draw.chance(0.4) else ()
    return [draw.pick(pool) if pool else spans.word(draw) for _ in range(count)]


def _said_of_axes(draw: Draw, across: str, up: str) -> str:
    """What a request says of the labels of one axis or both."""
    form = draw.pick((*_AXES, *_ACROSS, *_UP)).format(x=f"{{{across}}}", y=f"{{{up}}}")
    return draw.pick((", {}", " with {}", "; {}", " ({})", ". {}")).format(form)


def plot(draw: Draw) -> Kind:
    """A plot of numbers, with labels or without."""
    data, labels, head, way, across, up = names_of(draw, *_NAMES)
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
    axes = draw.chance(0.4)
    if axes:
        parameters += [Parameter((across,), "title", True), Parameter((up,), "title", True)]

    def make() -> Request:
        text = worded(draw, draw.pick(_PLOTS))
        text = text.replace(
            "{name}", " ".join(thing_name(draw) for _ in range(draw.pick((1, 1, 2))))
        )
        text = text.replace("{data}", f"{{{data}}}")
        given: list[tuple[str, Any, str]] = []
        if with_labels and (not parameters[1].optional or draw.chance(0.5)):
            count = draw.rng.randint(2, 6)
            figures = series.values(draw, count, whole=shape == "int[]")
            called = _labels(draw, count)
            if draw.chance(0.5):
                form = draw.pick(("{} {}", "{}: {}", "{} = {}", "{} ({})", "{} with {}", "{}={}"))
                pairs = [form.format(a, b) for a, b in zip(called, figures, strict=True)]
                given = [(labels, called, ""), (data, figures, joined(draw, pairs))]
            else:
                given = [(data, figures, series.listed(draw, figures)),
                         (labels, called, joined(draw, called))]  # fmt: skip
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
        if axes and draw.chance(0.5):
            text += _said_of_axes(draw, across, up)
        return Request(text, given=tuple(given))

    return kind_of(draw, _VERBS, _THINGS, parameters, make)
