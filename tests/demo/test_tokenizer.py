from pathlib import Path

import pytest
from transformers import AutoTokenizer

from demo.tokenizer import write_tokenizer
from harmony.tokenizer import encode, encode_with_control


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, lambda stage, fraction: None)
    return folder


def test_it_agrees_with_the_packaged_vocabulary(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Hello wörld! it's  \n\n 12345 DON'T 日本語\u3000 \t x/y\r\n  e\u0301 🤷🏽"
    assert tokenizer(text).input_ids == encode(text)
    assert tokenizer.decode(encode(text)) == text
    harmony = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    assert tokenizer(harmony).input_ids == encode_with_control(harmony)
