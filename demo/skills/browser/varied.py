"""Training cases of the browser with varied pages and questions: see `pages`.

What a case does follows from what its displays show, so that the same can be done for any page:

- A line of the results says it: it is cited. No other line may have more of the question's words.
- No line has a word of the question besides those of a page's title: that page is opened.
- The page goes on below its view: a word of the question is looked for on it.
- Nothing says it: the answer is that nothing was found.
"""

from demo.skills.browser import docs, steps, thoughts
from demo.skills.browser.display import Display
from demo.skills.browser.pages import (
    Place,
    Stated,
    asks_of,
    draw_place,
    draw_stated,
    noun,
    subject,
)
from demo.skills.browser.quotes import Quote, holds, ranked, stating
from demo.skills.browser.site import Session, telling
from demo.skills.case import Case, Draw, Exchange, Turn, final, system, thinks, user
from demo.skills.drills import joined
from demo.skills.words import Split
from harmony.messages import Effort, Message
from harmony.tools import BROWSER, PYTHON

MOST_TOKENS = 1750
_MOST_SHOWN = 1300
_SYSTEM_TOKENS = 480
_DOCS = 0.4
_RENAMED = 0.6
"""How many of the cases about documentation are about pages whose words are replaced."""
_NOTHING = 0.12
_NAMED = 0.35
_FAR = 0.6
"""How many of the answers in view of a named page are left out, so that more are below it."""
_TRIES = 12
_MOST_WORDS = 9
_QUESTIONS = {Effort.LOW: 8, Effort.MEDIUM: 6, Effort.HIGH: 4}
_AGAIN = (
    "In the same results: {}", "Same results: {}", "From these results: {}", "And {}", "{}", "{}",
    "Look at these lines again: {}", "It should be there, too: {}", "Without another search: {}",
)  # fmt: skip
_PLACES = (
    "Open the page {0}: {1}", "Read the page {0}. {1}", "{1} Open {0} for it.", "Use {0}. {1}",
    "On the page {0}: {1}", "Please read {0} first. {1}", "{1} It must be on the page {0}.",
    "Go to {0}. {1}", "According to {0}: {1}", "{1} (see {0})", "{0} should say it: {1}",
    "I found the page {0}. {1}", "{1} Take it from {0}.",
)  # fmt: skip
_BELOW = (
    "{} It is further down.", "Further down: {}", "{} It comes at the end.", "{} Scroll down.",
    "Below the beginning: {}", "{} It is not at the top.", "In the lower part: {}",
)  # fmt: skip
_FIRST = (0, 0, 0, 0, 1, 2, 3, 7)


def case(draw: Draw) -> Case:
    """One question, sometimes after others that are answered."""
    hosted = (BROWSER, PYTHON) if draw.chance(0.25) else (BROWSER,)
    while True:
        session, stated = _session(draw)
        past = _past(draw, stated) if draw.chance(0.3) else ()
        made = _exchange(draw, session, stated)
        if made is not None:
            found = Case("browser", (system(draw, hosted), *past, made[0]), made[1])
            if steps.size_without_thoughts(found) <= _MOST_SHOWN:
                return found


def drill(draw: Draw) -> Case:
    """Several questions about one website, some of them about results that are there already."""
    while True:
        session, stated = _session(draw)
        exchanges: list[Exchange] = []
        left = MOST_TOKENS - _SYSTEM_TOKENS
        while len(exchanges) < _QUESTIONS[draw.effort]:
            made = _same(draw, session, stated) if draw.chance(0.6) else None
            made = made or _exchange(draw, session, stated)
            left -= steps.size((made[0], *steps.messages(made[1]))) if made else left
            if made is None or left < 0:
                break
            exchanges.append(made)
        if len(exchanges) > 1:
            return joined((system(draw, (BROWSER,)),), exchanges)


def _session(draw: Draw) -> tuple[Session, tuple[Stated, ...]]:
    site = docs.site(Split.TRAIN) if draw.chance(_DOCS) else None
    if site is not None and draw.chance(_RENAMED):
        site = docs.renamed(draw, site)
    place = Place(site, ()) if site is not None else draw_place(draw)
    return Session(place.site, draw.pick(_FIRST)), place.stated


def _past(draw: Draw, stated: tuple[Stated, ...]) -> tuple[Message, ...]:
    """Questions that are answered, as a server shows them later: without their displays."""
    messages: list[Message] = []
    for number, one in enumerate(draw.rng.sample(stated, min(len(stated), draw.pick((1, 2))))):
        text = " ".join(one.sentence.strip("| .").split()[:10])
        messages += (user(one.question), final(f"{text} 【{number}†L{draw.rng.randint(4, 16)}】."))
    return tuple(messages)


def _exchange(draw: Draw, session: Session, stated: tuple[Stated, ...]) -> Exchange | None:
    for _ in range(_TRIES):
        if not stated:
            made = _of_docs(draw, session)
        elif draw.chance(_NOTHING):
            made = _nothing(draw, session, stated)
        elif draw.chance(_NAMED):
            made = _named(draw, session, draw.pick(stated))
        else:
            made = _of_fact(draw, session, draw.pick(stated))
        if made is not None:
            return made
    return None


def _of_fact(draw: Draw, session: Session, one: Stated) -> Exchange | None:
    """A question that a page answers: in the results, or on the page itself."""
    words, own = asks_of(one.core, one.title)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    shown = session.look(words)
    found = stating(shown, one.sentence, one.value, words)
    if found is not None:
        turn, display = steps.search(draw, session, words)
        return user(one.question), (turn, steps.quoting(draw, found, words, display))
    if one.url not in shown.page.links or not own or _says_any(shown, own):
        return None
    if not {word.lower() for word in telling(one.title)} <= {word.lower() for word in words}:
        return None
    return _on_page(draw, session, one, words)


def _says_any(display: Display, words: list[str]) -> bool:
    """Whether a line in view has one of the words."""
    return any(holds(line, words) for line in display.lines[max(display.start, 2) : display.end])


def _on_page(draw: Draw, session: Session, one: Stated, words: list[str]) -> Exchange | None:
    """The results only name the page: it is opened, and has the answer."""
    first = len(session.displays)
    turn, results = steps.search(draw, session, words)
    link = results.page.links.index(one.url)
    thought = thoughts.onward(" ".join(words), one.title, link)
    opened = steps.step(draw, thought, session.open(link))
    last = _in_view(draw, session, one, words) or _below(draw, session, one, words)
    if last is None:
        session.back_to(first)
        return None
    return user(one.question), (turn, opened, *last)


def _named(draw: Draw, session: Session, one: Stated) -> Exchange | None:
    """The user names a page by its title or its address; the answer is in view or below."""
    words = telling(one.core)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    first = len(session.displays)
    name = one.url if draw.chance(0.4) else one.title
    turns: tuple[Turn, ...]
    if name == one.url:
        turns = (steps.step(draw, thoughts.opening(name), session.open(name)),)
    else:
        titled = telling(one.title)
        if not titled or one.url not in session.look(titled).page.links:
            return None
        turn, results = steps.search(draw, session, titled)
        link = results.page.links.index(one.url)
        turns = (turn, steps.step(draw, thoughts.following(one.title, link), session.open(link)))
    question, last = one.question, _in_view(draw, session, one, words)
    if last is not None and draw.chance(_FAR):
        last = None
    elif last is None:
        last = _scrolled(draw, session, one, words) if draw.chance(0.5) else None
        question = draw.pick(_BELOW).format(one.question) if last else question
        last = last or _below(draw, session, one, words)
    if last is None:
        session.back_to(first)
        return None
    return user(draw.pick(_PLACES).format(name, question)), (*turns, *last)


def _in_view(
    draw: Draw, session: Session, one: Stated, words: list[str]
) -> tuple[Turn, ...] | None:
    display = session.displays[-1]
    found = stating(display, one.sentence, one.value, words)
    return None if found is None else (steps.quoting(draw, found, words, display),)


def _scrolled(
    draw: Draw, session: Session, one: Stated, words: list[str]
) -> tuple[Turn, ...] | None:
    """The next lines of a page say it."""
    if session.displays[-1].end >= len(session.displays[-1].lines):
        return None
    called = session.scroll()
    last = _in_view(draw, session, one, words)
    if last is None:
        session.back_to(len(session.displays) - 1)
        return None
    thought = thoughts.scrolling(" ".join(words), called[2].start)
    return steps.step(draw, thought, called), *last


def _below(draw: Draw, session: Session, one: Stated, words: list[str]) -> tuple[Turn, ...] | None:
    """What is below the view of a page is found by a word of the question that is not in view."""
    display = session.displays[-1]
    view = "\n".join(display.lines[: display.end]).lower()
    missing = [word for word in words if word.lower() not in view]
    if not missing or display.end >= len(display.lines):
        return None
    whole = Display(display.cursor, display.page, display.lines, display.end, len(display.lines))
    found = stating(whole, one.sentence, one.value, words)
    message, shown, _, lines = session.find(missing[0])
    if found is None or lines != [found.line]:
        session.back_to(len(session.displays) - 1)
        return None
    thought = thoughts.finding(" ".join(words), missing[0])
    step = Turn((thinks(thought.at(draw.effort)), message), (shown,))
    return step, steps.quoting(draw, found, words, display)


def _same(draw: Draw, session: Session, stated: tuple[Stated, ...]) -> Exchange | None:
    """The last display answers another question, too."""
    if not session.displays or not stated:
        return None
    display = session.displays[-1]
    for one in draw.rng.sample(stated, min(len(stated), 12)):
        words = telling(one.core)
        found = stating(display, one.sentence, one.value, words) if words else None
        if found is not None and len(words) <= _MOST_WORDS:
            text = draw.pick(_AGAIN).format(one.question)
            return user(text), (steps.quoting(draw, found, words, display),)
    return None


def _nothing(draw: Draw, session: Session, stated: tuple[Stated, ...]) -> Exchange | None:
    """A question as the pages answer others, about something that they do not name."""
    pool = [noun(draw), noun(draw)]
    one = draw_stated(draw, subject(draw), pool, form=draw.pick(stated).form)
    words = telling(one.core)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    shown = session.look(words)
    most = max((holds(line, words) for line in shown.lines[4 : shown.end]), default=0)
    if 2 * most > len(words) or any(word.lower() in _text(shown) for word in pool):
        return None
    turn, _ = steps.search(draw, session, words)
    return user(one.question), (turn, steps.lacking(draw, words))


def _text(display: Display) -> str:
    return "\n".join(display.lines[4:]).lower()


def _of_docs(draw: Draw, session: Session) -> Exchange | None:
    """A question in the words of this project's documentation, of which a line has most."""
    question = docs.ask(draw, session.site)
    words = telling(question)
    if not 0 < len(words) <= _MOST_WORDS:
        return None
    best = _clearly(ranked(session.look(words), words), words)
    if best is None:
        return None
    turn, display = steps.search(draw, session, words)
    return user(question), (turn, steps.quoting(draw, best, words, display))


def _clearly(found: list[Quote], words: list[str]) -> Quote | None:
    """The best line, if it has at least half of the words in what can be quoted."""
    if found and 2 * found[0].score >= len(words):
        return found[0]
    return None
