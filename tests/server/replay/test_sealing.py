"""Sealed reasoning can be opened by its owner only, and only if it is unchanged."""

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.fernet import Fernet

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.sealing import Sealer, check_key

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
REASONING = Message(Author(Role.ASSISTANT), "Hm… a secret", Channel.ANALYSIS, tokens=(200006, 5))
PARAM = "input.0.encrypted_content"


@pytest.mark.parametrize("tokens", [None, (), (200006, 5)])
def test_a_seal_opens(tokens: tuple[int, ...] | None) -> None:
    message = Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS, tokens=tokens)
    sealer = Sealer([NEW])
    assert sealer.open("a", sealer.seal("a", message), PARAM) == message


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
def test_a_seal_of_another_owner_isassert_refused(owner: str) -> None:
    sealer = Sealer([NEW])
    assert_refused(sealer, owner, sealer.seal("a", REASONING))


def test_a_seal_of_an_unknown_key_isassert_refused() -> None:
    assert_refused(Sealer([NEW]), "a", Sealer([OLD]).seal("a", REASONING))


def test_a_seal_with_any_changed_byte_isassert_refused() -> None:
    sealer = Sealer([NEW])
    whole = urlsafe_b64decode(sealer.seal("a", REASONING))
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        assert_refused(sealer, "a", urlsafe_b64encode(changed).decode())


@pytest.mark.parametrize("seal", ["", "x", "gAAAAA", "é", "\ud800", "A" * 100_000])
def test_text_that_is_not_a_seal_isassert_refused(seal: str) -> None:
    assert_refused(Sealer([NEW]), "a", seal)


def test_without_keys_each_sealer_generates_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sealer = Sealer()
    assert "--encryption-key" in caplog.text
    assert sealer.open("a", sealer.seal("a", REASONING), PARAM) == REASONING
    assert_refused(Sealer(), "a", sealer.seal("a", REASONING))


def test_bad_keys_areassert_refused() -> None:
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
