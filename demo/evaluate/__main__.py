"""The command line of the evaluation: `python -m demo.evaluate`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from demo import transcript, weights
from demo.decode import Decoder
from demo.evaluate import measures, over_http, play, table
from demo.package import packaged
from demo.scoring import expected, identical
from demo.skills import SKILLS
from demo.train import restore
from harmony.tokenizer import decode


def from_training(path: Path) -> Decoder:
    """The decoder for a training state, rounded as it would be shipped."""
    model = restore(0, path).model
    packed = weights.pack(model.state_dict(), model.known)
    return Decoder(*weights.build(*weights.unpack(packed)))


def from_package() -> Decoder:
    """The decoder for the packaged weights."""
    return Decoder(*weights.build(*weights.unpack(packaged())))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the options name, and print each line when it is known."""
    parser = _parser()
    options = parser.parse_args(arguments)
    only = tuple(options.only.split(",")) if options.only else None
    if options.http:
        known = over_http.NAMES
        _check(parser, only, known)
        client = over_http.connected(options.http)
        lines = over_http.measure(client, options.count, only or known, grammar=options.grammar)
    else:
        _check(parser, only, measures.NAMES)
        torch.set_num_threads(options.threads)
        decoder = from_training(options.state) if options.state else from_package()
        if options.show:
            _check(parser, (options.show,), tuple(SKILLS))
            show(decoder, options.show, options.count)
            return
        lines = measures.measure(decoder, options.count, options.unlike, only or measures.NAMES)
    form = table.markdown if options.markdown else table.plain
    if options.markdown:
        print(table.MARKDOWN_HEAD, flush=True)
    for line in lines:
        print(form(line), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo.evaluate", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="cases for each skill")
    parser.add_argument("--only", metavar="NAME,NAME", help="these skills and measures")
    parser.add_argument(
        "--unlike", type=int, default=400, metavar="N", help="prompts at temperature 1"
    )
    parser.add_argument("--state", type=Path, help="a training state instead of the package")
    parser.add_argument("--show", metavar="SKILL", help="show what is not as expected, no table")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--http", metavar="URL", help="ask a running server instead")
    parser.add_argument("--grammar", action="store_true", help="with --http: strict schemas")
    return parser


def _check(
    parser: argparse.ArgumentParser, only: Sequence[str] | None, known: Sequence[str]
) -> None:
    for name in only or ():
        if name not in known:
            parser.error(f"no such measure: {name}; there are {', '.join(known)}")


def show(decoder: Decoder, skill: str, count: int) -> None:
    """Print the cases with a turn that is not the expected one to the letter, right or wrong."""
    plays = play.play(decoder, play.cases(skill, count))
    for one in plays:
        for number, output in enumerate(one.outputs):
            turn = one.case.turns[number]
            if not identical(output, expected(turn)):
                verdict = "agrees" if one.agreed[number] else "wrong"
                asked = [str(m.content) for m in one.case.history if m.author.role == "user"]
                print(f"request:  {asked[-1] if asked else ''}")
                print(f"expected: {decode(transcript.sampled(turn))}")
                print(f"{verdict + ':':9} {decode(one.raw[number])}\n", flush=True)
    for line in measures.skill_lines(skill, plays):
        print(table.plain(line))


if __name__ == "__main__":
    main()
