"""Sealed reasoning can be opened by its owner only, and only if it is unchanged."""

import logging
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import nullcontext
from typing import Any

import pytest
from cryptography.fernet import Fernet

from harmony.messages import Author, Channel, Message, Role
from harmony.vocab import longest_token
from server.errors import ContextLengthExceeded, InvalidRequest
from server.replay.sealing import SealedInput, Sealer, check_key

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
REASONING = Message(Author(Role.ASSISTANT), "Hm… a secret", Channel.ANALYSIS, tokens=(200006, 5))
EARLIER = "s" * 42 + "A="
"""The key of what an earlier version has sealed and signed."""
SEALED_EARLIER = (
    "gAAAAABrCrVIJGA6vzbkmf-Mm4Z29Vu-wzUQPoKPYYzTDi_8kDhZAgElqVqnf4zzMWyiS9BUomBLWCt0mT5PEe6OWJVc"
    "2HWUwD_Z3tSaJSeuIt0R8J7bioj_fnKwOf3Gs1mWsLDBdYZjcml2kvqyxKS0XSbl88qdk8xGxt5nQTfLpkdUidtuIdz5"
    "PjI_8NL0P4XBFb1KckM4TEyPNcn2mNYQVh45nbg5uTezpvLpqwQUmv1rTaCuFmccsKzJt-9b2o1js4pJgqXb"
)
PARAM = "input.0.encrypted_content"


@pytest.mark.parametrize("tokens", [None, (), (200006, 5)])
def test_a_seal_opens(tokens: tuple[int, ...] | None) -> None:
    message = Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS, tokens=tokens)
    sealer = Sealer([NEW])
    assert sealer.open("a", sealer.seal("a", message), PARAM) == message


def test_what_earlier_versions_have_sealed_and_signed_stays_valid() -> None:
    sealer = Sealer([NEW, EARLIER])
    assert sealer.open("a", SEALED_EARLIER, PARAM) == REASONING
    text = (
        "gAAAAABrCrVI5upnK9hAVQr99j3Jp25o2L1kt1EJMvcuYLIKoKuqvYcIpUzEgej9feSsZ4FB1LqB0TTBMA7z9-z399yL"
        "pavvPLlYr5TPdLy-0nbBVqXu1zw="
    )
    assert sealer.unseal_text("a", text) == "text é"
    signature = "9650e0fa762ff9530a683f0a4a35d8b817edc37008a11fffddc2a7030f0f37af"
    assert signature in sealer.signatures("text é")


def test_a_seal_hides_its_content_and_equal_contents_differ() -> None:
    sealer = Sealer([NEW])
    one, two = sealer.seal("a", REASONING), sealer.seal("a", REASONING)
    assert one != two
    assert b"secret" not in urlsafe_b64decode(one)


def test_any_key_opens_and_the_first_one_seals() -> None:
    rotated = Sealer([NEW, OLD])
    assert rotated.open("a", Sealer([OLD]).seal("a", REASONING), PARAM) == REASONING
    assert Sealer([NEW]).open("a", rotated.seal("a", REASONING), PARAM) == REASONING


@pytest.mark.parametrize("owner", ["b", ""])
def test_a_seal_of_another_owner_is_refused(owner: str) -> None:
    sealer = Sealer([NEW])
    assert_refused(sealer, owner, sealer.seal("a", REASONING))


def test_a_seal_of_an_unknown_key_is_refused() -> None:
    assert_refused(Sealer([NEW]), "a", Sealer([OLD]).seal("a", REASONING))


def test_a_seal_with_any_changed_byte_is_refused() -> None:
    sealer = Sealer([NEW])
    whole = urlsafe_b64decode(sealer.seal("a", REASONING))
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        assert_refused(sealer, "a", urlsafe_b64encode(changed).decode())


@pytest.mark.parametrize("seal", ["", "x", "gAAAAA", "é", "\ud800", "A" * 100_000])
def test_text_that_is_not_a_seal_is_refused(seal: str) -> None:
    assert_refused(Sealer([NEW]), "a", seal)


def test_without_keys_each_sealer_generates_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sealer = Sealer()
    assert "--encryption-key" in caplog.text
    assert sealer.open("a", sealer.seal("a", REASONING), PARAM) == REASONING
    assert_refused(Sealer(), "a", sealer.seal("a", REASONING))


def test_bad_keys_are_refused() -> None:
    assert check_key(NEW) == NEW
    for key in ("", "short", "é" * 44, NEW[4:]):
        with pytest.raises(ValueError, match="openssl rand"):
            check_key(key)


def assert_refused(sealer: Sealer, owner: str, seal: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sealer.open(owner, seal, PARAM)
    assert (caught.value.param, caught.value.code) == (PARAM, "invalid_encrypted_content")


def test_a_text_is_sealed_for_its_owner() -> None:
    sealer = Sealer()
    seal = sealer.seal_text("me", "a text")
    assert sealer.unseal_text("me", seal, 60) == "a text"
    for owner, text in (("you", seal), ("me", "no seal"), ("me", "é")):
        with pytest.raises(ValueError, match=r"seal|ASCII"):
            sealer.unseal_text(owner, text)


@pytest.mark.parametrize(("seconds", "opens"), [(59, False), (60, True), (None, True)])
def test_a_seal_of_a_text_is_good_for_some_time(
    monkeypatch: pytest.MonkeyPatch, seconds: int | None, opens: bool
) -> None:
    sealer, now = Sealer(), 1_800_000_000
    monkeypatch.setattr(time, "time", lambda: now)
    seal = sealer.seal_text("me", "a text")
    monkeypatch.setattr(time, "time", lambda: now + 60)
    with nullcontext() if opens else pytest.raises(ValueError, match="no seal"):
        assert sealer.unseal_text("me", seal, seconds) == "a text"


def test_a_seal_of_a_text_has_one_form() -> None:
    sealer = Sealer([NEW])
    seal = sealer.seal_text("me", "a text")
    for form in (f"{seal}=", f"{seal[:20]}!{seal[20:]}", f"\n{seal}"):
        with pytest.raises(ValueError, match="as this server made it"):
            sealer.unseal_text("me", form)


def test_seals_of_texts_and_of_messages_are_not_exchanged() -> None:
    sealer = Sealer()
    message = Message(Author(Role.ASSISTANT), "hi", Channel.ANALYSIS)
    with pytest.raises(ValueError, match=r"."):
        sealer.unseal_text("me", sealer.seal("me", message))
    with pytest.raises(InvalidRequest):
        sealer.open("me", sealer.seal_text("me", "a text"), "input.0")


def test_a_signature_of_each_key_is_possible() -> None:
    first, second = (Fernet.generate_key().decode() for _ in range(2))
    (old,) = Sealer([first]).signatures("a text")
    new, still = Sealer([second, first]).signatures("a text")
    assert still == old
    assert new != old


class CountingSealer(Sealer):
    """Counts the seals that it opens."""

    opened = 0

    def open(self, *args: Any, **options: Any) -> Message:
        self.opened += 1
        return super().open(*args, **options)


def thought(content: str, tokens: tuple[int, ...] | None = None) -> Message:
    return Message(Author(Role.ASSISTANT), content, Channel.ANALYSIS, tokens=tokens)


def refused_as_too_long(sealed_input: SealedInput, seal: str) -> bool:
    with pytest.raises(InvalidRequest) as caught:
        sealed_input.open(seal, PARAM)
    error = caught.value
    return (type(error), error.param, error.code) == (
        ContextLengthExceeded,
        PARAM,
        "context_length_exceeded",
    )


def test_each_seal_of_a_request_is_opened_once() -> None:
    sealer = CountingSealer()
    seal, other = (sealer.seal("a", REASONING) for _ in range(2))
    sealed_input = SealedInput(sealer, "a", 1000)
    assert [sealed_input.open(each, PARAM) for each in (seal, other, seal)] == [REASONING] * 3
    assert sealer.opened == 2


@pytest.mark.parametrize("message", [thought("x" * 2_000_000), thought("x", tokens=(1,) * 500_000)])
def test_a_seal_that_holds_more_than_the_context_is_refused(message: Message) -> None:
    sealer = Sealer()
    seal = sealer.seal("a", message)
    assert len(seal) < 10_000
    assert refused_as_too_long(SealedInput(sealer, "a", 10_000), seal)


def test_the_seals_of_a_request_are_added_up() -> None:
    sealer = Sealer()
    message = thought("x" * 40 * longest_token())
    first, second, third = (sealer.seal("a", message) for _ in range(3))
    sealed_input = SealedInput(sealer, "a", 100)
    assert sealed_input.open(first, PARAM) == sealed_input.open(second, PARAM) == message
    assert refused_as_too_long(sealed_input, third)


def test_a_repeated_seal_is_counted_each_time() -> None:
    sealer = Sealer()
    seal = sealer.seal("a", thought("x" * 40 * longest_token()))
    sealed_input = SealedInput(sealer, "a", 100)
    assert sealed_input.open(seal, PARAM) is sealed_input.open(seal, PARAM)
    assert refused_as_too_long(sealed_input, seal)


def test_the_reasoning_of_several_turns_may_exceed_the_context() -> None:
    sealer = Sealer()
    sealed_input = SealedInput(sealer, "a", 1000)
    for number in range(5):
        message = thought(f"{number:4}" * 1000, tokens=(*range(1000),))
        assert sealed_input.open(sealer.seal("a", message), PARAM) == message


def test_a_changed_seal_is_refused_as_such_in_a_request() -> None:
    sealer = Sealer()
    with pytest.raises(InvalidRequest) as caught:
        SealedInput(sealer, "b", 1000).open(sealer.seal("a", REASONING), PARAM)
    assert (caught.value.param, caught.value.code) == (PARAM, "invalid_encrypted_content")
