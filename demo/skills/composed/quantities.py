"""Traits that are a number with a unit: `height_cm`, "is 40 centimetres high"."""

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Parameter
from demo.skills.composed.traits import Trait

_LENGTHS = (("cm", "centimetres"), ("mm", "millimetres"), ("m", "metres"), ("feet", "feet"))
_QUANTITIES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("height", "high", _LENGTHS),
    ("length", "long", _LENGTHS),
    ("width", "wide", _LENGTHS),
    ("depth", "deep", _LENGTHS),
    ("thickness", "thick", _LENGTHS[:2]),
    ("diameter", "across", _LENGTHS),
    ("distance", "away", (("km", "kilometres"), ("miles", "miles"), ("m", "metres"))),
    ("weight", "in weight", (("kg", "kilos"), ("g", "grams"), ("pounds", "pounds"))),
    ("load", "at most", (("kg", "kilograms"), ("tons", "tons"))),
    ("volume", "in volume", (("litres", "litres"), ("ml", "millilitres"), ("l", "l"))),
    ("speed", "at full speed", (("kmh", "km/h"), ("mph", "miles an hour"), ("rpm", "rpm"))),
    ("power", "under load", (("watts", "watts"), ("kw", "kilowatts"), ("hp", "horsepower"))),
    ("voltage", "at the plug", (("v", "volts"), ("volts", "V"))),
    ("temperature", "inside", (("c", "degrees"), ("celsius", "degrees Celsius"), ("f", "°F"))),
    ("pressure", "inside", (("bar", "bar"), ("psi", "psi"))),
    ("storage", "in all", (("tb", "terabytes"), ("mb", "MB"), ("gigabytes", "gigabytes"))),
    ("area", "in area", (("sqm", "square metres"), ("acres", "acres"), ("hectares", "ha"))),
    ("energy", "a day", (("kwh", "kWh"), ("kcal", "kcal"), ("joules", "joules"))),
    ("runtime", "in a row", (("min", "minutes"), ("hours", "hours"), ("days", "days"))),
    ("delay", "behind time", (("s", "seconds"), ("min", "min"), ("minutes", "minutes"))),
)
_VERBS = ("is {} {unit} {how}", "measures {} {unit} {how}", "has a {what} of {} {unit}",
          "was measured at {} {unit}", "reaches {} {unit}", "shows {} {unit} of {what}",
          "comes to {} {unit}")  # fmt: skip
_ADJUNCTS = ("{} {unit} {how}", "with a {what} of {} {unit}", "with {} {unit}", "of {} {unit}")


def quantity(draw: Draw) -> Trait:
    """A number whose unit stands in its name, at least mostly."""
    what, how, units = draw.pick(_QUANTITIES)
    short, spoken = draw.pick(units)
    names = (f"{what}_{short}", f"{what}_in_{spoken.split()[0].lower()}", what, f"{short}_{what}")
    plain = tuple(name for name in names if name.replace("_", "a").isalnum() and name.isascii())
    unit = draw.pick((short, spoken)) if len(short) > 1 else spoken
    words = {"unit": unit, "what": what, "how": how}
    first = draw.pick(plain[:2])
    type_ = draw.pick(("int", "int", "number"))
    parameter = Parameter((first, *(name for name in plain if name != first)), type_)
    return Trait(parameter, _with_words(_VERBS, words), _with_words(_ADJUNCTS, words))


def _with_words(ways: tuple[str, ...], words: dict[str, str]) -> tuple[str, ...]:
    """The ways with each key of `words` replaced; `{}` stays for the number."""
    replaced = []
    for way in ways:
        for key, word in words.items():
            way = way.replace(f"{{{key}}}", word)
        replaced.append(way)
    return tuple(replaced)
