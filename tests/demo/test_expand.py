"""An expanded checkpoint: transformers loads it as gpt-oss and says what the decoder says."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GptOssForCausalLM

from demo import expand, weights
from demo.decode import Decoder
from demo.skills import draw_case
from demo.skills.words import Split
from demo.train import fresh
from demo.transcript import prompt


def test_transformers_loads_it_and_decodes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fresh(0, known=torch.arange(100)).model
    torch.save({"model": model.state_dict(), "known": model.known}, tmp_path / "state.pt")
    folder = tmp_path / "checkpoint"
    monkeypatch.setattr("sys.argv", ["expand", str(tmp_path / "state.pt"), str(folder)])
    expand.main()

    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert isinstance(loaded, GptOssForCausalLM)
    assert loaded.dtype == torch.bfloat16
    assert AutoTokenizer.from_pretrained(folder)("hi<|end|>").input_ids == [3686, 200007]

    state, known = weights.unpack(weights.pack(model.state_dict(), model.known))
    decoder = Decoder(*weights.build(state, known))
    ids = prompt(draw_case(0, 0, Split.TRAIN, "chat"))
    (continuation,) = decoder.greedy([ids], 4)
    with torch.no_grad():
        first = loaded(torch.tensor([ids])).logits[0, -1]
    # The sums' order differs, and with it bfloat16's last bit: the best of both are among the best.
    assert continuation[0] in first.topk(3).indices
