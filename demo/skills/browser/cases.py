"""Questions that the browser answers, and requests that need no browser."""

from collections.abc import Callable
from dataclasses import dataclass, field

from demo.skills import calls, chat
from demo.skills.browser import docs, steps, thoughts, varied
from demo.skills.browser.facts import Article, Fact, draw_articles, draw_fact, draw_subject
from demo.skills.browser.quotes import Quote, in_line, quote
from demo.skills.browser.site import Session, Site, telling
from demo.skills.case import Case, Draw, Exchange, Turn, developer, final, system, thinks, user
from demo.skills.drills import joined
from demo.skills.results import draw_outcome
from demo.skills.tasks import ask, draw_task, toolbox
from demo.skills.words import Split
from harmony.messages import Effort, Message
from harmony.tools import BROWSER, PYTHON

MOST_TOKENS = 1500
_SYSTEM_TOKENS = 480
_SHORT = (3, 4, 5, 6, 8)
_LONG = (14, 18, 22)
_VARIED = 0.75
"""How many of the training cases are varied; the others are as the evaluation has them."""
_DOCS = 0.4
_QUESTIONS = {Effort.LOW: 8, Effort.MEDIUM: 6, Effort.HIGH: 4}
_SAME = 0.65
_PLACES = {
    Split.TRAIN: (
        "Open the page {0}: {1}",
        "Read the page {0}. {1}",
        "{1} Open {0} for it.",
        "On the page {0}: {1}",
        "Please read {0} first. {1}",
    ),
    Split.HELD_OUT: ("Have a look at the page {0}. {1}", "Open {0} and read: {1}"),
}
_BELOW = {
    Split.TRAIN: ("{} It is further down.", "Further down: {}", "{} It comes at the end."),
    Split.HELD_OUT: ("{} It is near the end.",),
}
_AGAIN = {
    Split.TRAIN: ("In the same results: {}", "Same results: {}", "From these results: {}"),
    Split.HELD_OUT: ("From the same results: {}",),
}


@dataclass(frozen=True, slots=True)
class World:
    """A website, the facts on it, the browser's session there, the questions so far."""

    articles: tuple[Article, ...]
    session: Session
    asked: set[str] = field(default_factory=set)


Maker = Callable[[Draw, World], Exchange | None]


def case(draw: Draw) -> Case:
    """One request with the browser at hand; sometimes after questions that are answered."""
    if draw.chance(0.1):
        return _without_browser(draw)
    if draw.split is Split.TRAIN and draw.chance(_VARIED):
        return varied.case(draw)
    maker = _draw_maker(draw)
    while True:
        made = _attempt(draw, maker)
        if made is not None and steps.size_of(made) <= MOST_TOKENS:
            return made


def drill(draw: Draw) -> Case:
    """Several questions over one or a few searches in one conversation."""
    if draw.split is Split.TRAIN and draw.chance(_VARIED):
        return varied.drill(draw)
    while True:
        has_docs = draw.chance(_DOCS / 2) and docs.site(draw.split) is not None
        world = _docs_world(draw) if has_docs else _world(draw, _SHORT)
        start = (system(draw, (BROWSER,)),)
        exchanges = _questions(draw, world, has_docs=has_docs)
        if len(exchanges) > 1:
            made = joined(start, exchanges)
            if steps.size_of(made) <= MOST_TOKENS:
                return made


def _questions(draw: Draw, world: World, *, has_docs: bool) -> list[Exchange]:
    exchanges: list[Exchange] = []
    left = MOST_TOKENS - _SYSTEM_TOKENS
    for _ in range(3 * _QUESTIONS[draw.effort]):
        if len(exchanges) == _QUESTIONS[draw.effort]:
            break
        if world.articles and world.session.displays and draw.chance(_SAME):
            made = _same(draw, world)
        else:
            makers = (_from_docs,) if has_docs else (_quoting, _quoting, _nothing)
            made = draw.pick(makers)(draw, world)
        if made is not None:
            left -= steps.size((made[0], *steps.messages(made[1])))
            if left < 0:
                break
            exchanges.append(made)
    return exchanges


def _draw_maker(draw: Draw) -> Maker:
    if draw.chance(_DOCS) and docs.site(draw.split) is not None:
        return _from_docs
    return draw.weighted({_quoting: 50, _opening: 24, _finding: 7, _scrolling: 5, _nothing: 14})


def _attempt(draw: Draw, maker: Maker) -> Case | None:
    past: tuple[Message, ...] = ()
    if maker is _from_docs:
        world = _docs_world(draw)
    else:
        world = _world(draw, _LONG if maker in (_finding, _scrolling) else _SHORT)
        past = _past(draw, world)
    made = maker(draw, world)
    if made is None:
        return None
    hosted = (BROWSER, PYTHON) if draw.chance(0.15) else (BROWSER,)
    return Case("browser", (system(draw, hosted), *past, made[0]), made[1])


def _world(draw: Draw, sizes: tuple[int, ...]) -> World:
    articles = draw_articles(draw, draw.rng.randint(3, 6), sizes)
    return World(tuple(articles), Session(Site([article.page for article in articles])))


def _docs_world(draw: Draw) -> World:
    site = docs.site(draw.split)
    assert site is not None
    return World((), Session(site, draw.pick((0, 0, 0, 1, 2, 5))))


def _past(draw: Draw, world: World) -> tuple[Message, ...]:
    """Questions that are answered, as a server shows them later: without their displays."""
    messages: list[Message] = []
    for _ in range(draw.pick((0, 0, 0, 0, 1, 2, 3))):
        made = _quoting(draw, world)
        if made is not None:
            messages += (made[0], final(str(made[1][-1].messages[-1].content)))
    return tuple(messages)


def _fact(draw: Draw, world: World) -> tuple[Article, Fact]:
    article = draw.pick(world.articles)
    return article, draw.pick(article.facts)


def _says(found: Quote | None, fact: Fact) -> bool:
    """Whether a quote is the fact's sentence."""
    return found is not None and found.text == fact.sentence.rstrip(".")


def _quoting(draw: Draw, world: World) -> Exchange | None:
    """The answer stands in a line of the results."""
    fact = _fact(draw, world)[1]
    words = telling(fact.question)
    shown = world.session.look(words)
    if fact.question in world.asked or not _says(quote(shown, words), fact):
        return None
    world.asked.add(fact.question)
    turn, display = steps.search(draw, world.session, words)
    found = quote(display, words)
    assert found is not None
    return user(fact.question), (turn, steps.quoting(draw, found, words, display))


def _same(draw: Draw, world: World) -> Exchange | None:
    """The answer stands in a line of the last results, which the question names."""
    display = world.session.displays[-1]
    facts = [fact for article in world.articles for fact in article.facts]
    draw.rng.shuffle(facts)
    for fact in facts:
        if fact.sentence.rstrip(".") not in display.text:
            continue
        words = telling(fact.question)
        found = quote(display, words)
        if fact.question not in world.asked and found is not None and _says(found, fact):
            world.asked.add(fact.question)
            text = draw.pick(_AGAIN[draw.split]).format(fact.question)
            return user(text), (steps.quoting(draw, found, words, display),)
    return None


def _from_docs(draw: Draw, world: World) -> Exchange | None:
    question, count = docs.draw_question(draw, world.session.site)
    words = telling(question)
    found = quote(world.session.look(words), words)
    if found is None or found.score < count:
        return None
    turn, display = steps.search(draw, world.session, words)
    return user(question), (turn, steps.quoting(draw, found, words, display))


def _opening(draw: Draw, world: World) -> Exchange | None:
    """The page that the user names is searched and opened, and has the answer in view."""
    article, fact = _fact(draw, world)
    words, page = telling(fact.question), article.page
    if page.url not in [found.url for found, _ in world.session.site.search(page.title)]:
        return None
    question = draw.pick(_PLACES[draw.split]).format(page.title, fact.question)
    turn, display = steps.search(draw, world.session, telling(page.title))
    link = display.page.links.index(page.url)
    called = world.session.open(link)
    found = quote(called[2], words)
    if found is None or not _says(found, fact):
        return None
    opened = steps.step(draw, thoughts.following(page.title, link), called)
    return user(question), (turn, opened, steps.quoting(draw, found, words, called[2]))


def _far(draw: Draw, world: World) -> tuple[Article, Fact, Turn] | None:
    """A fact that is not in the first view of its page, and the turn that opens the page."""
    article, fact = _fact(draw, world)
    called = world.session.open(article.page.url)
    view = "\n".join(called[2].lines[: called[2].end])
    if fact.value in view or called[2].end == len(called[2].lines):
        return None
    return article, fact, steps.step(draw, thoughts.opening(article.page.url), called)


def _finding(draw: Draw, world: World) -> Exchange | None:
    """The page of a URL is opened, and a word found on it below the view."""
    far = _far(draw, world)
    if far is None:
        return None
    article, fact, opened = far
    display = world.session.displays[-1]
    view = "\n".join(display.lines[: display.end]).lower()
    own = [w for w in telling(fact.question) if w.lower() not in view]
    if not own:
        return None
    message, shown, _, lines = world.session.find(own[0])
    if len(lines) != 1:
        return None
    found = in_line(display.lines[lines[0]], lines[0], telling(fact.question))
    if found is None or not _says(found, fact):
        return None
    question = draw.pick(_PLACES[draw.split]).format(article.page.url, fact.question)
    words = telling(fact.question)
    thought = thoughts.finding(" ".join(words), own[0])
    step = Turn((thinks(thought.at(draw.effort)), message), (shown,))
    last = steps.quoting(draw, found, words, display)
    return user(question), (opened, step, last)


def _scrolling(draw: Draw, world: World) -> Exchange | None:
    """The page of a URL is opened, and its next lines have the answer."""
    far = _far(draw, world)
    if far is None:
        return None
    article, fact, opened = far
    words = telling(fact.question)
    called = world.session.scroll()
    found = quote(called[2], words)
    if found is None or not _says(found, fact):
        return None
    below = draw.pick(_BELOW[draw.split]).format(fact.question)
    question = draw.pick(_PLACES[draw.split]).format(article.page.url, below)
    step = steps.step(draw, thoughts.scrolling(" ".join(words), called[2].start), called)
    return user(question), (opened, step, steps.quoting(draw, found, words, called[2]))


def _nothing(draw: Draw, world: World) -> Exchange | None:
    """The results are about other things, or there are none."""
    topic = draw_subject(draw)
    shared = [word for a in world.articles for f in a.facts for word in telling(f.question)]
    nouns = [word for word in shared if word.islower()] or ["name"]
    fact = draw_fact(draw, topic, nouns)
    pages = "\n".join(article.page.text for article in world.articles).lower()
    if any(word.lower() in pages for word in topic.split()):
        return None
    words = telling(fact.question)
    turn, _ = steps.search(draw, world.session, words)
    return user(fact.question), (turn, steps.lacking(draw, words))


def _without_browser(draw: Draw) -> Case:
    """Small talk, or a request for a function that is there beside the browser."""
    tasks = [draw_task(draw)] if draw.chance(0.5) else []
    box = toolbox(draw, tasks, draw.rng.randint(1, 3)) if tasks or draw.chance(0.4) else []
    start = (system(draw, (BROWSER,)), *developer(None, box))
    if not tasks:
        text, intent = chat.small_talk(draw)
        return Case("browser", (*start, user(text)), (chat.reply(draw, intent),))
    turns = calls.answered(draw, tasks[0], draw_outcome(draw))
    return Case("browser", (*start, user(ask(draw, tasks[0].request))), turns)
