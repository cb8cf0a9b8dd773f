"""Queries of tables: columns, conditions, an order, a limit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import spans
from demo.skills.catalogue.domains import values as named
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.catalogue.linked.making import POLITE, joined, kind_of, names_of, thing_name
from demo.skills.phrases import worded
from demo.skills.words import Split, names, nouns

_OPERATORS = ("is", "is", "=", "==", ">", "<", ">=", "<=", "!=", "over", "under", "is not",
              "equals", "contains", "starts with", "is at least", "is below", "like", "before",
              "in", "after", "is above", "has", "does not contain")  # fmt: skip
_ORDER = (
    ("ascending", "[ascending|in ascending order|lowest first|smallest first|from A to Z|"
     "upwards|rising|asc|from low to high|oldest first]"),
    ("descending", "[descending|in descending order|highest first|largest first|from Z to A|"
     "downwards|falling|desc|from high to low|newest first]"),
)  # fmt: skip
_IN_SQL = {
    "=": "[is|=|equals|is exactly]",
    "!=": "[is not|isn't|!=|differs from]",
    ">": "[>|is over|is above|is more than|is greater than|exceeds]",
    "<": "[<|is under|is below|is less than|is smaller than]",
    ">=": "[>=|is at least|is no less than]",
    "<=": "[<=|is at most|is no more than]",
}
_SQL = ("A condition of SQL", "WHERE clause, e.g. age > 30", "Filter as in SQL: town = 'Oslo'")
_DIRECTED = ("Column and direction, e.g. name ASC", "ORDER BY clause", "Sort key, e.g. age DESC")
_SHORT = {"ascending": "asc", "descending": "desc"}
_QUERIES = (
    f"{POLITE}[show|list|fetch|get|give me|read|look up|pull|export|print|return] {{cols}} "
    "[of|from|for all|in|for every|out of] {table}",
    f"{POLITE}[select|take|collect|extract] {{cols}} from [|the ]{{table}}[| table]",
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
_NAMES = (
    "columns|fields|select|attributes|properties|cols|keys|wanted|outputs|field_names",
    "table|source|collection|entity|dataset|from_table|sheet|index|resource|kind",
    "filter|where|condition|filters|criteria|predicate|restriction|rule|match",
    "order_by|sort_by|sort|sort_key|sorted_by|order|rank_by|ordering",
    "direction|sort_order|order_dir|dir|sort_direction|sequence",
    "limit|top|max_rows|count|n|rows|first|take|page_size",
)
_VERBS = "query|select|fetch|list|read|get|report|export|find|scan|run"
_THINGS = ("table", "rows", "data", "base", "query", "records", "columns", "entries", "sql")


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


def _condition(draw: Draw, columns: Sequence[str], *, in_sql: bool) -> tuple[str, str]:
    """A condition as the function wants it, and how it is said.

    in_sql: the function wants an operator of SQL, and text in quotes, however they are said.
    """
    key = draw.pick(columns) if draw.chance(0.4) else _column(draw)
    if in_sql:
        operator = draw.pick(tuple(_IN_SQL))
        number = operator not in ("=", "!=") or draw.chance(0.4)
        value = str(draw.rng.randint(0, 2000)) if number else spans.word(draw)
        written = value if number else f"'{value}'"
        quoted = draw.pick((value, written, written))
        said = f"{key} {worded(draw, _IN_SQL[operator])} {quoted}"
        return f"{key} {operator} {written}", said
    other = spans.word(draw)
    value = draw.pick((str(draw.rng.randint(0, 2000)), f"'{other}'", f"'{other}'", other,
                       f'"{other}"', draw.pick(names(Split.TRAIN)), "true", "not null",
                       f"20{draw.rng.randint(10, 30)}-{draw.rng.randint(10, 12)}-10"))  # fmt: skip
    condition = f"{key} {draw.pick(_OPERATORS)} {value}"
    return condition, condition


def _directed(draw: Draw, column: str) -> tuple[str, str]:
    """A column with its direction as in SQL, and how it is said."""
    direction, said = draw.pick(_ORDER)
    return f"{column} {_SHORT[direction].upper()}", f"{column} {worded(draw, said)}"


def _tables(draw: Draw) -> list[str]:
    """Up to four names of tables."""
    drawn = [
        draw.pick((thing_name(draw), draw.pick(named("table", Split.TRAIN)))) for _ in range(4)
    ]
    return list(dict.fromkeys(drawn))


def _wanted(draw: Draw) -> tuple[list[str], str]:
    """Columns, and how they are said."""
    drawn = _columns(draw, draw.pick((1, 2, 2, 2, 3, 3, 4)))
    if draw.chance(0.08):
        return drawn, f"[{', '.join(drawn)}]"
    return drawn, joined(draw, drawn)


def _behind(draw: Draw, parts: list[str]) -> str:
    """The parts of a request that follow its columns and its table."""
    if draw.chance(0.3):
        draw.rng.shuffle(parts)
    return "".join(draw.pick((" ", " ", ", ")) + part for part in parts)


def query(draw: Draw) -> Kind:
    """A query of a table. Whether the rest is mentioned differs from request to request."""
    cols, table, cond, key, way, limit = names_of(draw, *_NAMES)
    several = draw.chance(0.5)
    short, table_choices = draw.chance(0.6), draw.chance(0.15)
    choices = tuple((_SHORT[v] if short else v, v) for v, _ in _ORDER)
    tables = _tables(draw)
    in_sql, directed = draw.chance(0.35), draw.chance(0.4)
    optional = {
        cond: Parameter(
            (cond,), "text[]" if several else "text", True, about=draw.pick(_SQL) if in_sql else ""
        ),
        key: Parameter((key,), "word", True),
        way: Parameter((way,), "enum", True, choices),
        limit: Parameter((limit,), "int", True),
    }
    kept = [name for name in optional if draw.chance(0.75)]
    directed = directed and way not in kept
    if directed:
        optional[key] = replace(optional[key], about=draw.pick(_DIRECTED))
    of = Parameter((table,), "word")
    if table_choices and len(tables) > 1:
        of = Parameter((table,), "enum", False, tuple((one, one) for one in tables))

    def make() -> Request:
        drawn, said = _wanted(draw)
        one = draw.pick(tables)
        given: list[tuple[str, Any, str]] = [(cols, drawn, said), (table, one, one)]
        text = worded(draw, draw.pick(_QUERIES))
        text = text.replace("{cols}", f"{{{cols}}}").replace("{table}", f"{{{table}}}")
        parts: list[str] = []
        if cond in kept and draw.chance(0.5):
            made = [
                _condition(draw, drawn, in_sql=in_sql)
                for _ in range(draw.pick((1, 1, 2)) if several else 1)
            ]
            value: Any = [wanted for wanted, _ in made] if several else made[0][0]
            given.append((cond, value, " and ".join(said for _, said in made)))
            parts.append(draw.pick(_WHERE).replace("{cond}", f"{{{cond}}}"))
        if key in kept and draw.chance(0.5):
            by = draw.pick(drawn) if draw.chance(0.7) else _column(draw)
            given.append((key, *(_directed(draw, by) if directed else (by, by))))
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
        return Request(text + _behind(draw, parts), given=tuple(given))

    parameters = [of, Parameter((cols,), "word[]"), *(optional[name] for name in kept)]
    if draw.chance(0.4):
        parameters.reverse()
    return kind_of(draw, _VERBS, _THINGS, parameters, make)
