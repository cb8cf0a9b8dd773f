"""Measure the longest step of the lexers that colour code, with hostile texts.

    python -m benchmarks.highlighting [LANGUAGE ...]

A step leads from one token to the next. Nothing else of the process runs meanwhile, and the time
limit of `server.web.highlighting` is checked between steps only. Each text has a beginning, which
may leave a string or a comment open, and then repeats a piece up to the limit of characters.
Without names, the languages are those of the page: about a minute for each. The exit status is 1 if
a step takes longer than `MOST_MS`: the page must not have such a language.
"""

import argparse
import signal
import sys
import time

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

from server.web.highlighting import LANGUAGES, MAX_HIGHLIGHTED

MOST_MS = 50.0
TEXT_SECONDS = 0.05
"""How long a text is read. A step that begins in this time is measured to its end."""
STUCK_SECONDS = 2.0

BEGINNINGS = ("", '"', "'", "`", "{", "(", "/*", "//", "#", "<a ", "<!--", "<script>")
WORDS = """
a: a. a, a- a= a( ((a a:: :: ::a a< </ a/ 1_ 1. .1 1e 0x /* // -- ** == << <<- <<a <!-- <? {{ {- (*
$( ${ @a @a( %a [a]( ![
"""
PIECES = (
    *"aAé01_ \t\n\r\\\"'`([{}<>/*-+=!?&|^~%$@#.,:;",
    *WORDS.split(),
    *("a ", "<a ", "a b", "a\n", "\n ", "\nA", "\n@", "\n#", "\n\t", "a\\\n", "a é", "0 ", "- "),
    *('\\"', '"\\', '"a" ', 'f"', 'f"{', '"""', "'''", 'r#"'),
    *("def a", "class a", "function a", "fn a", "func a", "import a", "let a", "const a", "type a"),
    *("struct a", "public ", "SELECT ", "do ", "fi\n", "a a="),
)


class _Stuck(Exception):
    pass


def longest_step(lexer: Lexer, text: str) -> float:
    """The milliseconds of the longest step, up to `STUCK_SECONDS`."""
    longest, began = 0.0, time.thread_time()
    last = began
    signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
    try:
        for _ in lexer.get_tokens(text):
            now = time.thread_time()
            longest, last = max(longest, now - last), now
            if now - began > TEXT_SECONDS:
                break
    except _Stuck:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 1000 * max(longest, time.thread_time() - last)


def measure(language: str) -> float:
    """Print and return the milliseconds of the longest step of a language."""
    lexer = get_lexer_by_name(language, stripnl=False)
    worst, of = 0.0, ("", "")
    for beginning in BEGINNINGS:
        for piece in PIECES:
            text = (beginning + piece * MAX_HIGHLIGHTED)[:MAX_HIGHLIGHTED]
            worst, of = max((worst, of), (longest_step(lexer, text), (beginning, piece)))
    print(f"{language:12} {worst:8.1f} ms   {of[0]!r} and then {of[1]!r}", flush=True)
    return worst


def _stop(*_: object) -> None:
    raise _Stuck


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE")
    signal.signal(signal.SIGALRM, _stop)
    names = parser.parse_args().languages or sorted(LANGUAGES)
    sys.exit(max(map(measure, names)) > MOST_MS)


if __name__ == "__main__":
    main()
