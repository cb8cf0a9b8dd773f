"""Reasoning that clients keep for the server: encrypted and authenticated, for them unreadable.

Fernet's tokens (AES-128-CBC, HMAC-SHA256), by the first key; any of the keys opens them, so that
keys can be rotated. A token opens for nobody but the owner that it was made for: as all that is
kept, it belongs to the API key that made it. It holds the sampled token ids too, so that the next
prompt repeats them.
"""

import logging
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import NoReturn

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from harmony.messages import Message
from server.errors import InvalidRequest
from server.store import codec

logger = logging.getLogger(__name__)


class Sealer:
    """Seals and opens. keys: Fernet's, at least one; without any, one is made for this process."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        if not keys:
            logger.info("no --encryption-key: sealed reasoning cannot be opened after a restart")
        self._fernet = MultiFernet(
            [Fernet(key) for key in keys or [Fernet.generate_key().decode()]]
        )

    def seal(self, owner: str, message: Message) -> str:
        """What `encrypted_content` holds of a message of the model's."""
        tokens = codec.pack_tokens(message.tokens)
        sealed = {
            "owner": owner,
            "message": codec.dump_message(message),
            "tokens": None if tokens is None else b64encode(tokens).decode(),
        }
        return self._fernet.encrypt(zlib.compress(orjson.dumps(sealed))).decode()

    def open(self, owner: str, sealed: str, param: str) -> Message:
        """What was sealed for the owner. Raises InvalidRequest naming `param` for all else."""
        try:
            opened = orjson.loads(zlib.decompress(self._fernet.decrypt(sealed)))
        except (InvalidToken, ValueError) as error:
            raise _refused(param) from error
        if opened["owner"] != owner:
            raise _refused(param)
        tokens = opened["tokens"]
        message = codec.load_message(
            opened["message"], None if tokens is None else b64decode(tokens)
        )
        assert message is not None
        return message


def refuse_seal(sealed: str, param: str) -> NoReturn:
    """Opens nothing, in place of `Sealer.open`. Raises InvalidRequest naming `param`."""
    raise _refused(param)


def check_key(key: str) -> str:
    """The key. Raises ValueError where it is none."""
    try:
        Fernet(key)
    except ValueError:
        raise ValueError(
            "expected 32 bytes in URL-safe base64, as `openssl rand -base64 32 | tr +/ -_` prints"
        ) from None
    return key


def _refused(param: str) -> InvalidRequest:
    return InvalidRequest(
        "The encrypted content could not be verified: it was changed, or made with another API"
        " key or by another server. Send it as it was received, or leave it out.",
        param=param,
        code="invalid_encrypted_content",
    )
