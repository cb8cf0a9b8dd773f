from harmony.tokenizer import encode_with_control
from harmony.vocab import VOCAB_SIZE
from server.outbound.token_bytes import hexadecimal


def test_the_bytes_of_all_tokens_are_the_text() -> None:
    text = "Grüße 🤖🏽<|end|>"
    joined = "".join(hexadecimal(encode_with_control(text)))
    assert bytes.fromhex(joined).decode() == text


def test_unknown_ids_are_replacement_characters() -> None:
    assert hexadecimal([-1, VOCAB_SIZE]) == ["efbfbd", "efbfbd"]
