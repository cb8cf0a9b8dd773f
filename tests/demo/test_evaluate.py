"""The evaluation: a perfect model gets full marks, every line is named, and a server is asked."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import torch

from demo.choices import choices
from demo.decode import sampled as draw_ids
from demo.evaluate import __main__ as command
from demo.evaluate import measures, over_http, table
from demo.evaluate.play import SEED, cases, in_batches, play
from demo.scoring import expected
from demo.skills import SKILLS, draw_case
from demo.skills.case import Case
from demo.skills.words import Split
from demo.strange import LONGEST_PROMPT, mix, practical, strange
from demo.transcript import between, prompt, sampled
from demo.weights import SHARPNESS
from harmony import vocab


class Perfect:
    """A decoder that knows every case: each prompt's continuation by the case it belongs to."""

    def __init__(self, known: Sequence[Case]) -> None:
        self.known: dict[tuple[int, ...], list[int]] = {}
        for case in known:
            ids = prompt(case)
            for turn in case.turns:
                self.known[tuple(ids)] = sampled(turn)
                ids = [*ids, *sampled(turn), *between(turn)]

    def greedy(self, prompts: Sequence[list[int]], most: int) -> list[list[int]]:
        del most
        return [self.known.get(tuple(ids), [vocab.RETURN]) for ids in prompts]

    def among(self, prompts: Sequence[list[int]], candidates: Sequence[Sequence[int]]) -> list[int]:
        right = choices(SEED, 200, Split.HELD_OUT, "everyday")
        next_ids = {tuple(one.ids[: one.at + 1]): one.ids[one.at + 1] for one in right}
        return [next_ids[tuple(ids)] for ids in prompts]

    def sample(self, prompts: Sequence[list[int]], most: int, generator: object) -> list[list[int]]:
        del generator
        return self.greedy(prompts, most)


def perfect(known: Sequence[Case]) -> Any:
    """What stands for a decoder: it has those of its methods that evaluations call."""
    return Perfect(known)


def test_perfect_model_is_all_right() -> None:
    known = [draw_case(SEED, i, Split.HELD_OUT, s) for s in SKILLS for i in range(3)]
    assert all(one.right for one in play(perfect(known), known))


def test_play_ends_at_the_first_wrong_turn() -> None:
    (one,) = play(perfect([]), [draw_case(SEED, 0, Split.HELD_OUT, "chain")])
    assert one.outputs == [None]
    assert not one.right


def test_every_skill_and_measure_has_a_line() -> None:
    known = [case for skill in SKILLS for case in cases(skill, 2)]
    lines = list(measures.measure(perfect(known), 2, 20, measures.NAMES))
    named = {line.name: line for line in lines}
    assert named.keys() >= SKILLS.keys() - {"call"} | {table.TOOL, table.ARGUMENTS, table.EFFORT}
    assert named["chain"].share == named[table.VALID].share == named[table.ENDS].share == 1
    assert "100.0% of 2   must 75, reach 90" in table.plain(named["chain"])
    assert table.markdown(named["chain"]) == "| chain | 100.0 % | 75 % | 90 % |"


def test_the_choice_is_right_by_the_functions_first_token() -> None:
    assert measures.choice(perfect([]), 20).share == 1

    class Last(Perfect):
        def among(
            self, prompts: Sequence[list[int]], candidates: Sequence[Sequence[int]]
        ) -> list[int]:
            return [ids[-1] for ids in candidates]

    last: Any = Last([])
    assert 0 < measures.choice(last, 20).share < 1


def test_only_what_is_asked_for_is_measured() -> None:
    lines = measures.measure(perfect(cases("sums", 2)), 2, 20, ["sums"])
    assert [line.name for line in lines] == ["sums", table.VALID]


def test_batches_give_each_prompt_its_own_output() -> None:
    prompts = [[n] * (1 + n * 37 % 1900) for n in range(150)]
    sizes: list[int] = []

    def same(chosen: list[list[int]]) -> list[list[int]]:
        sizes.append(len(chosen))
        return chosen

    assert in_batches(same, prompts) == prompts
    assert max(sizes) <= 64


def test_sampling_follows_the_sharpened_logits() -> None:
    logits = torch.log(torch.tensor([0.6, 0.3, 0.1])) / SHARPNESS
    wide = torch.full((4000, 200), -1e4)
    wide[:, [3, 70, 199]] = logits
    drawn = draw_ids(wide, torch.Generator().manual_seed(1))
    shares = torch.bincount(drawn, minlength=200) / len(drawn)
    torch.testing.assert_close(
        shares[[3, 70, 199]], torch.tensor([0.6, 0.3, 0.1]), atol=0.03, rtol=0
    )


def test_strange_prompts_are_fixed_by_their_seed() -> None:
    assert strange(1, 40) == strange(1, 40) != strange(2, 40)
    assert practical(1, 24) == practical(1, 24)
    assert all(p.name in [tool.name for tool in p.tools] for p in practical(1, 24))
    assert all(set(p.values) <= set(p.schema["properties"]) for p in practical(1, 24))
    assert mix(1, 30) == mix(1, 30) != mix(2, 30)
    assert max(map(len, mix(1, 30))) <= LONGEST_PROMPT


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"origin": "the city of Kyoto", "destination": "quito", "count": 3.0}, True),
        ({"origin": "Quito", "destination": "Kyoto", "count": 3}, False),
        ({"origin": "Kyoto", "destination": "Quito", "count": 32}, False),
        ({"origin": "Kyoto", "destination": "Quito"}, False),
    ],
)
def test_values_have_to_be_at_their_names(arguments: dict[str, Any], right: bool) -> None:
    wanted = {"origin": "Kyoto", "destination": "Quito", "count": 3}
    assert measures._holds(arguments, wanted) is right


def test_a_server_is_asked_for_first_turns() -> None:
    known = {json.dumps(over_http.body(c, grammar=True)["input"]): c for c in cases("call", 4)}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [{"id": "m"}]})
        asked = json.loads(request.content)
        if any(tool.get("strict") for tool in asked["tools"]):
            return httpx.Response(400)
        turn = expected(known[json.dumps(asked["input"])].turns[0])
        name = (turn.recipient or "").removeprefix("functions.")
        item = {"type": "function_call", "name": name, "arguments": turn.arguments}
        return httpx.Response(200, json={"output": [{"type": "reasoning"}, item]})

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server")
    lines = list(over_http.measure(client, 4, ["call"], grammar=True))
    assert [(line.name, line.share) for line in lines] == [(table.TOOL, 1), (table.ARGUMENTS, 1)]


def hosted(text: str, *, cited: bool) -> httpx.Client:
    """A client of a server that answers with the results of both numbers, and with `text`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [{"id": "m"}]})
        numbers = [int(n) for n in re.findall(r"\d+", json.loads(request.content)["input"])]
        a, b = numbers if len(numbers) == 2 else (1, 1)
        said = f"{a * b:,} or {a + b} or {a - b}. {text}"
        notes = [{"type": "url_citation"}] if cited else []
        part = {"type": "output_text", "text": said, "annotations": notes}
        return httpx.Response(200, json={"output": [{"type": "message", "content": [part]}]})

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server")


@pytest.mark.parametrize("cited", [True, False])
def test_a_server_is_asked_for_numbers_and_for_cited_answers(cited: bool) -> None:
    about = " ".join(part for _, part in over_http._QUESTIONS)
    lines = over_http.measure(hosted(about, cited=cited), 5, ["python", "browser"], grammar=False)
    assert [line.share for line in lines] == [1, cited]


def test_the_request_for_a_case_has_its_calls_with_their_results_and_its_schema() -> None:
    items = [
        item for case in cases("result", 8) for item in over_http.body(case, grammar=True)["input"]
    ]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert calls == [i["call_id"] for i in items if i.get("type") == "function_call_output"] != []
    (case,) = cases("structured", 1)
    form = over_http.body(case, grammar=True)["text"]["format"]
    assert form["strict"]
    assert (
        json.loads(expected(case.turns[0]).answer or "").keys()
        == form["schema"]["properties"].keys()
    )


@pytest.mark.parametrize(
    "given", [["--only", "none such"], ["--http", "http://a", "--only", "sums"]]
)
def test_what_cannot_be_measured_is_refused(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(given)
    assert "no such measure" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "known", "printed"),
    [
        (["--only", "sums"], True, "sums  .*100.0% of 2"),
        (["--only", "sums", "--markdown"], True, r"\| sums \| 100.0 % \|"),
        (["--show", "sums"], False, "wrong: +<.return.>"),
    ],
)
def test_the_command_prints_lines_or_what_is_wrong(
    given: list[str],
    known: bool,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "from_package", lambda: perfect(cases("sums", 2) if known else []))
    command.main([*given, "--count", "2"])
    assert re.search(printed, capsys.readouterr().out)


# One process for all of them: what takes long to import is torch.
EACH_FIRST = """
import importlib, sys, traceback
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception:
        traceback.print_exc()
    else:
        print(name)
    ours = [one for one in sys.modules if one.partition(".")[0] in ("demo", "harmony")]
    assert len(ours) > 10
    for one in ours:
        del sys.modules[one]
"""
FIRST = ("demo.transcript", "demo.skills", "demo.evaluate.__main__")


@pytest.fixture(scope="module")
def imported() -> list[str]:
    """The modules that can be imported when no other one of the project has been."""
    command = [sys.executable, "-c", EACH_FIRST, *FIRST]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


@pytest.mark.parametrize("module", FIRST)
def test_each_module_can_be_the_first_that_is_imported(imported: list[str], module: str) -> None:
    assert module in imported
