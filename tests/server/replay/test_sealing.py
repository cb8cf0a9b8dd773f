"""Sealed reasoning: opened whole, by its owner alone, and never when it was changed."""

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.fernet import Fernet

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.sealing import Sealer, check_key

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
THOUGHT = Message(Author(Role.ASSISTANT), "Hm… a secret", Channel.ANALYSIS, tokens=(200006, 5))
PARAM = "input.0.encrypted_content"


@pytest.mark.parametrize("tokens", [None, (), (200006, 5)])
def test_what_is_sealed_is_opened(tokens: tuple[int, ...] | None) -> None:
    message = Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS, tokens=tokens)
    sealer = Sealer([NEW])
    assert sealer.open("a", sealer.seal("a", message), PARAM) == message


def test_the_client_cannot_read_it_nor_tell_two_from_each_other() -> None:
    sealer = Sealer([NEW])
    one, two = sealer.seal("a", THOUGHT), sealer.seal("a", THOUGHT)
    assert one != two
    assert b"secret" not in urlsafe_b64decode(one)


def test_a_former_key_opens_and_the_first_one_seals() -> None:
    rotated = Sealer([NEW, OLD])
    assert rotated.open("a", Sealer([OLD]).seal("a", THOUGHT), PARAM) == THOUGHT
    assert Sealer([NEW]).open("a", rotated.seal("a", THOUGHT), PARAM) == THOUGHT


@pytest.mark.parametrize("owner", ["b", ""])
def test_another_owner_cannot_use_it(owner: str) -> None:
    sealer = Sealer([NEW])
    _refused(sealer, owner, sealer.seal("a", THOUGHT))


def test_a_forgotten_key_opens_nothing() -> None:
    _refused(Sealer([NEW]), "a", Sealer([OLD]).seal("a", THOUGHT))


def test_every_changed_byte_shows() -> None:
    sealer = Sealer([NEW])
    whole = urlsafe_b64decode(sealer.seal("a", THOUGHT))
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        _refused(sealer, "a", urlsafe_b64encode(changed).decode())


@pytest.mark.parametrize("sealed", ["", "x", "gAAAAA", "é", "\ud800", "A" * 100_000])
def test_what_is_no_seal_is_refused(sealed: str) -> None:
    _refused(Sealer([NEW]), "a", sealed)


def test_without_keys_each_process_has_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sealer = Sealer()
    assert "--encryption-key" in caplog.text
    assert sealer.open("a", sealer.seal("a", THOUGHT), PARAM) == THOUGHT
    _refused(Sealer(), "a", sealer.seal("a", THOUGHT))


def test_keys_are_checked() -> None:
    assert check_key(NEW) == NEW
    for key in ("", "short", "é" * 44, NEW[4:]):
        with pytest.raises(ValueError, match="openssl rand"):
            check_key(key)


def _refused(sealer: Sealer, owner: str, sealed: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sealer.open(owner, sealed, PARAM)
    assert (caught.value.param, caught.value.code) == (PARAM, "invalid_encrypted_content")
