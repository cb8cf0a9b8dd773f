"""What functions can be asked for: a declared function, a request for it, its arguments."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo.skills.case import Draw
from demo.skills.catalogue import asking
from demo.skills.forms import Field, Filled, draw_fields, fill, mention, object_schema, to_json
from demo.skills.phrases import capital
from demo.skills.words import Split, aligned, nouns, split_of
from harmony.messages import FunctionTool

VERBS: dict[str, tuple[str, ...]] = {
    "get": ("get", "give me", "show me", "fetch"),
    "find": ("find", "look for", "find me"),
    "search": ("search", "search for", "look up"),
    "create": ("create", "make", "set up"),
    "add": ("add", "put in"),
    "delete": ("delete", "remove", "get rid of"),
    "remove": ("remove", "take away"),
    "update": ("update", "change", "edit"),
    "send": ("send", "send out"),
    "list": ("list", "show all", "list all"),
    "book": ("book", "reserve"),
    "cancel": ("cancel", "call off"),
    "start": ("start", "begin", "launch"),
    "stop": ("stop", "end", "halt"),
    "open": ("open", "open up"),
    "close": ("close", "shut"),
    "check": ("check", "have a look at"),
    "order": ("order", "buy"),
    "play": ("play", "put on"),
    "set": ("set", "set up"),
    "save": ("save", "store"),
    "read": ("read", "read out"),
    "write": ("write", "write down"),
    "move": ("move", "shift"),
    "copy": ("copy", "duplicate"),
    "count": ("count", "count up"),
    "convert": ("convert", "turn over"),
    "share": ("share", "pass on"),
    "rate": ("rate", "judge"),
    "schedule": ("schedule", "plan"),
    "track": ("track", "follow"),
    "load": ("load", "bring in"),
    "print": ("print", "print out"),
    "merge": ("merge", "join"),
    "lock": ("lock", "lock up"),
    "calculate": ("calculate", "work out"),
}
_ARTICLES = ("a", "the", "the", "my", "")
_QUESTIONS = ("what", "how ", "is ", "are ", "will ", "where ", "who ", "when ", "do ", "does ")
_COMMANDS = {phrase.split(" ")[0] for phrases in VERBS.values() for phrase in phrases} | {
    *("use", "turn", "tell", "text", "remind", "switch", "wake", "mail", "call", "pay", "put"),
}
_BEFORE = ("", "", "", "Please ", "Can you ", "Could you ", "I want you to ", "I need you to ")
_AFTER = ("", "", "", " please", " for me", " now", " today", ", thanks")


@dataclass(frozen=True, slots=True)
class Task:
    """Something asked for that one function does: the function, the request, the arguments."""

    tool: FunctionTool
    request: str
    filled: tuple[Filled, ...]

    @property
    def arguments(self) -> str:
        """The call's JSON."""
        return to_json(self.filled)


def draw_function(
    draw: Draw, name: str, about: str | None, fields: Sequence[Field]
) -> FunctionTool:
    """A declared function; some fields are optional."""
    if not fields:
        empty = draw.pick((None, {"type": "object", "properties": {}}))
        return FunctionTool(name, about, empty)
    required = fields if draw.chance(0.7) else fields[: draw.rng.randint(1, len(fields))]
    schema = object_schema(fields, required, strict=draw.chance(0.4))
    return FunctionTool(name, about, schema)


def draw_task(draw: Draw, taken: Sequence[str] = ()) -> Task:
    """A task for a function with a name that is not among `taken`."""
    if draw.split is Split.TRAIN and draw.chance(0.15):
        task = Task(*asking.plain(draw))
        if task.tool.name not in taken:
            return task
    while True:
        verb, thing = draw.pick(tuple(VERBS)), _thing(draw)
        name = _function_name(draw, verb, thing)
        if name not in taken and aligned(name) and split_of(name) is draw.split:
            break
    phrase = draw.pick(VERBS[verb])
    article = draw.pick(_ARTICLES)
    fields = draw_fields(draw, draw.pick((0, 1, 1, 1, 2, 2, 2, 3, 3, 4)))
    about = draw.pick(
        (
            f"{verb.capitalize()} {article} {thing}".replace("  ", " "),
            f"{phrase.capitalize()} {thing}.",
            f"Use this to {verb} the {thing}.",
            None,
        )
    )
    if about is not None and draw.chance(0.1):
        name = _opaque_name(draw, taken)
    tool = draw_function(draw, name, about, fields)
    required = set((tool.parameters or {}).get("required", ()))
    filled = tuple(fill(draw, f) for f in fields if f.name in required or draw.chance(0.5))
    what = f"{phrase} {article} {thing}".replace("  ", " ")
    return Task(tool, what + mention(draw, filled), filled)


def _thing(draw: Draw) -> str:
    count = draw.pick((1, 1, 1, 2))
    return " ".join(draw.pick(nouns(draw.split)) for _ in range(count))


def _function_name(draw: Draw, verb: str, thing: str) -> str:
    roll = draw.rng.random()
    words = thing.split()
    if roll < 0.78:
        return "_".join([verb, *words])
    if roll < 0.92:
        return verb + "".join(word.capitalize() for word in words)
    return "_".join([*words, verb])


def _opaque_name(draw: Draw, taken: Sequence[str]) -> str:
    """A name that does not tell what the function does: its description has to."""
    while True:
        word = draw.pick(("tool", "function", "action", "run", "do", "api", "call"))
        name = f"{word}_{draw.pick((draw.rng.randint(1, 99), draw.pick(nouns(draw.split))))}"
        if name not in taken and aligned(name):
            return name


def ask(draw: Draw, request: str) -> str:
    """A request in a person's words around `request`."""
    question = request.startswith(_QUESTIONS)
    before = draw.pick(_BEFORE) if request.split(" ")[0] in _COMMANDS else ""
    text = before + request
    if not text.endswith("."):
        text += draw.pick(_AFTER)
        question = question or before.startswith(("Can", "Could"))
        text += draw.pick(("?", "?", "")) if question else draw.pick(("", ".", ".", "!"))
    return text if draw.chance(0.25) else capital(text)


def toolbox(draw: Draw, tasks: Sequence[Task], size: int) -> list[FunctionTool]:
    """The tasks' functions among others, in random order, `size` in all at least."""
    box = list(dict.fromkeys(task.tool.name for task in tasks))
    tools = {task.tool.name: task.tool for task in tasks}
    while len(box) < size:
        other = draw_task(draw, box).tool
        box.append(other.name)
        tools[other.name] = other
    draw.rng.shuffle(box)
    return [tools[name] for name in box]
