"""Encryption of the reasoning that clients store for the server and cannot read.

A seal is a Fernet token (AES-128-CBC, HMAC-SHA256). It is made with the first key, and opened with
any of the keys, so that keys can be rotated. It holds the owner that it was made for, and opens for
no other, as all stored objects belong to the API key that made them. It also holds the sampled
token ids, so that the next prompt repeats them.

Source: https://github.com/fernet/spec/blob/master/Spec.md
"""

import hmac
import logging
import zlib
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import partial

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from harmony.messages import Message
from harmony.vocab import longest_token
from server.errors import ContextLengthExceeded, InvalidRequest
from server.store import codec

logger = logging.getLogger(__name__)


class Sealer:
    """Makes and opens seals.

    keys: Fernet keys, as `check_key` accepts them; the first encrypts. Without keys, one is
    generated, and its seals can be opened only until the process ends.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        if not keys:
            logger.info("no --encryption-key: sealed reasoning cannot be opened after a restart")
        keys = keys or [Fernet.generate_key().decode()]
        self._fernet = MultiFernet([Fernet(key) for key in keys])
        # The context string separates this use of the keys from Fernet's.
        self._signing = [
            hmac.digest(urlsafe_b64decode(key), b"signature of a text", "sha256") for key in keys
        ]

    def seal(self, owner: str, message: Message) -> str:
        """The seal of a message that the model made: the value of `encrypted_content`."""
        tokens = codec.pack_tokens(message.tokens)
        content = {
            "owner": owner,
            "message": codec.dump_message(message),
            "tokens": None if tokens is None else b64encode(tokens).decode(),
        }
        return self._fernet.encrypt(zlib.compress(orjson.dumps(content))).decode()

    def signatures(self, text: str) -> tuple[str, ...]:
        """The HMAC-SHA256 of a text with each key, as hexadecimal digits."""
        return tuple(hmac.new(key, text.encode(), "sha256").hexdigest() for key in self._signing)

    def seal_text(self, owner: str, text: str) -> str:
        """The seal of a short text."""
        return self._fernet.encrypt(orjson.dumps({"owner": owner, "text": text})).decode()

    def unseal_text(self, owner: str, seal: str, seconds: int | None = None) -> str:
        """The text in a seal that was made for the owner, at most `seconds` ago.

        Raises ValueError for any other text.
        """
        try:
            content = orjson.loads(self._fernet.decrypt(seal, seconds))
        except InvalidToken:
            raise ValueError("no seal of this server") from None
        # Fernet ignores what is no base64: one seal would have many forms, each good for one use.
        if urlsafe_b64encode(urlsafe_b64decode(seal)).decode() != seal:
            raise ValueError("no seal as this server made it")
        if content["owner"] != owner or "text" not in content:
            raise ValueError("no seal of a text for this owner")
        return str(content["text"])

    def open(
        self, owner: str, seal: str, param: str, inflate: codec.Inflate = zlib.decompress
    ) -> Message:
        """The message in a seal that was made for the owner.

        inflate: reads deflated data. Raises InvalidRequest naming `param` for any other text, and
        what `inflate` raises besides `zlib.error`.
        """
        try:
            content = orjson.loads(inflate(self._fernet.decrypt(seal)))
        except (InvalidToken, ValueError, zlib.error) as error:
            raise _invalid_seal(param) from error
        if content["owner"] != owner:
            raise _invalid_seal(param)
        tokens = content["tokens"]
        message = codec.load_message(
            content["message"], None if tokens is None else b64decode(tokens), inflate
        )
        assert message is not None
        return message


class SealedInput:
    """Opens the seals of one request: each once, however often it comes.

    Reasoning that repeats itself deflates to a thousandth. What the seals hold is therefore counted
    while it is inflated, and again where a seal is repeated. The limit is the bytes of the longest
    text that fits the context, about ten times what reasoning of that length takes: most reasoning
    of earlier turns comes back, too, and does not become part of the prompt.

    context_length: of the model, in tokens.
    """

    def __init__(self, sealer: Sealer, owner: str, context_length: int) -> None:
        self._sealer = sealer
        self._owner = owner
        self._context_length = context_length
        self._left = context_length * longest_token()
        self._opened: dict[str, tuple[Message, int]] = {}

    def open(self, seal: str, param: str) -> Message:
        """The message in a seal that was made for the owner.

        Raises InvalidRequest naming `param` for any other text, and ContextLengthExceeded naming it
        if this seal and those before it hold more than the limit.
        """
        if seal in self._opened:
            message, size = self._opened[seal]
            self._take(size, param)
            return message
        left = self._left
        message = self._sealer.open(self._owner, seal, param, partial(self._inflate, param))
        self._opened[seal] = message, left - self._left
        return message

    def _inflate(self, param: str, data: bytes) -> bytes:
        # One byte more than is left shows that there are more.
        inflated = zlib.decompressobj().decompress(data, self._left + 1)
        self._take(len(inflated), param)
        return inflated

    def _take(self, size: int, param: str) -> None:
        if size > self._left:
            raise ContextLengthExceeded(
                "the encrypted content up to this item is larger than any that is of use in the"
                f" context of {self._context_length} tokens; leave out that of earlier turns",
                param=param,
            )
        self._left -= size


def check_key(key: str) -> str:
    """The key itself. Raises ValueError if it is not a Fernet key."""
    try:
        Fernet(key)
    except ValueError:
        raise ValueError(
            "expected 32 bytes in URL-safe base64, as `openssl rand -base64 32 | tr +/ -_` prints"
        ) from None
    return key


def _invalid_seal(param: str) -> InvalidRequest:
    return InvalidRequest(
        "The encrypted content could not be verified: it was changed, or made with another API"
        " key or by another server. Send it as it was received, or leave it out.",
        param=param,
        code="invalid_encrypted_content",
    )
