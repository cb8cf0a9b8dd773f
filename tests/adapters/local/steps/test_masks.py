from collections.abc import Iterator

import pytest

from adapters.errors import InvalidGrammar
from adapters.grammars import GrammarCompiler, TokenMask
from adapters.local.steps.masks import MaskWorker
from harmony.tokenizer import encode
from harmony.vocab import CHANNEL, END

YES_OR_NO = 'start: ("yes" | "no") <[200007]>'
TEXT = r"start: <[200005]> /(.|\n)*/ <[200007]>"
TOO_MUCH = f'start: <[{CHANNEL}]> s\ns: s s s | s s | /[a-z]/ | " " | ""'


@pytest.fixture
def worker() -> Iterator[MaskWorker]:
    worker = MaskWorker()
    yield worker
    worker.close()


def step(worker: MaskWorker, *sampled: tuple[TokenMask, int]) -> None:
    for mask, token_id in sampled:
        mask.consume(token_id)
    worker.start([mask for mask, _ in sampled])
    worker.wait()


async def test_what_was_asked_is_known_after_waiting(
    compiler: GrammarCompiler, worker: MaskWorker
) -> None:
    text, answer = await compiler.compile(TEXT), await compiler.compile(YES_OR_NO)
    step(worker, (text, CHANNEL), (answer, encode("yes")[0]))
    assert text.few_ids is None
    assert len(text.allowed()) > 150_000
    assert answer.few_ids is not None
    assert answer.few_ids.tolist() == [END]


async def test_a_grammar_that_grows_too_complex_is_an_error_of_that_mask_alone(
    compiler: GrammarCompiler, worker: MaskWorker
) -> None:
    bad, good = await compiler.compile(TOO_MUCH), await compiler.compile(TEXT)
    step(worker, (bad, CHANNEL), (good, CHANNEL))
    assert isinstance(bad.error, InvalidGrammar)
    assert good.error is None


async def test_what_is_known_of_one_mask_outlasts_what_is_asked_for_others(
    compiler: GrammarCompiler, worker: MaskWorker
) -> None:
    text, answer = await compiler.compile(TEXT), await compiler.compile(YES_OR_NO)
    step(worker, (text, CHANNEL))
    step(worker, (answer, encode("yes")[0]))
    assert len(text.allowed()) > 150_000


def test_waiting_without_work_returns(worker: MaskWorker) -> None:
    worker.start([])
    worker.wait()


async def test_each_mask_is_asked_for_itself_where_asking_for_all_fails(
    compiler: GrammarCompiler, worker: MaskWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("adapters.local.steps.masks.fill_next_token_bitmask_par", explode)
    mask = await compiler.compile(YES_OR_NO)
    step(worker, (mask, encode("yes")[0]))
    assert mask.few_ids is None
    assert mask.allowed().tolist() == [END]
