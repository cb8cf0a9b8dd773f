"""Approvals: the client permits or refuses a call before it runs.

A call that needs approval ends the answer with an item `mcp_approval_request`. The client answers
with an `mcp_approval_response` in a later request. The response is accepted only if this server
made the request, for the same owner, server, tool and arguments, and only once. What proves this is
in the state that is stored with the answer. The id of the request is signed, too, for clients that
send stored items again. For an answer that is not stored, the proof is sealed in the id.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from server.errors import InvalidRequest
from server.ids import new_id
from server.store.approvals.base import KEEP_SECONDS, AnsweredRequests

PREFIX = "mcpr"
_TIME = slice(len(PREFIX) + 1, len(PREFIX) + 9)
_RANDOM = 24
_SIGNATURE = 32
_SIGNED = len(PREFIX) + 1 + 8 + _RANDOM + _SIGNATURE


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that needs approval.

    server: the digest of where the server is. arguments: as the model wrote them.
    """

    owner: str
    server: str
    label: str
    name: str
    arguments: str

    @property
    def digest(self) -> str:
        """A digest of all fields."""
        fields = [self.owner, self.server, self.label, self.name, self.arguments]
        return hashlib.sha256(orjson.dumps(fields)).hexdigest()


@dataclass(frozen=True, slots=True)
class Approvals:
    """Makes and checks requests for approval.

    seal: the sealed form of a text, for an owner. unseal: the text of a seal exactly as it was made
    for the owner; raises ValueError for any other. signatures: those that a text may have, as
    hexadecimal digits; the first is that of new requests. Empty where nothing is signed.
    """

    answered: AnsweredRequests
    seal: Callable[[str, str], str]
    unseal: Callable[[str, str], str]
    signatures: Callable[[str], Sequence[str]] = lambda _: ()

    def request_id(self, proposed: ProposedCall, *, stored: bool) -> str:
        """The id of a new request. stored: whether its digest is stored with the answer."""
        if stored:
            name = f"{PREFIX}_{int(time.time()):08x}{secrets.token_hex(_RANDOM // 2)}"
            signatures = self.signatures(f"{proposed.digest}.{name}")
            return f"{name}{signatures[0][:_SIGNATURE]}" if signatures else name
        # The random id makes the seals of equal calls differ, as each is answered once.
        text = f"{proposed.digest}.{new_id(PREFIX)}"
        return f"{PREFIX}_{self.seal(proposed.owner, text)}"

    async def check(
        self, request_id: str, proposed: ProposedCall, pending: Mapping[str, str], param: str
    ) -> None:
        """Check that a request for approval was made for a call, and not answered yet.

        pending: the digests of stored requests, by id. Raises InvalidRequest for `param`.
        """
        digest = pending.get(request_id) or self._sealed_digest(request_id, proposed.owner)
        if digest is None and self._is_signed(request_id, proposed):
            digest = proposed.digest
        if digest is None:
            raise unknown_request(param)
        if digest != proposed.digest:
            raise InvalidRequest(
                "The call differs from the one that approval was requested for.",
                param=param,
                code="approval_request_mismatch",
            )
        if await self.answered.answered(proposed.owner, request_id):
            raise already_answered(param)

    def _is_signed(self, request_id: str, proposed: ProposedCall) -> bool:
        """Whether the id was made for the call, at most `KEEP_SECONDS` ago."""
        if len(request_id) != _SIGNED or not request_id.isascii():
            return False
        name, signature = request_id[:-_SIGNATURE], request_id[-_SIGNATURE:]
        possible = self.signatures(f"{proposed.digest}.{name}")
        if not any(hmac.compare_digest(signature, each[:_SIGNATURE]) for each in possible):
            return False
        return int(name[_TIME], 16) > time.time() - KEEP_SECONDS

    def _sealed_digest(self, request_id: str, owner: str) -> str | None:
        prefix, _, sealed = request_id.partition("_")
        if prefix != PREFIX:
            return None
        try:
            text = self.unseal(owner, sealed)
        except ValueError:
            return None
        return text.partition(".")[0]


def unknown_request(param: str) -> InvalidRequest:
    """The error for a response to a request that this server did not make in the context."""
    return InvalidRequest(
        f"'{param}' names no request for approval of this conversation.",
        param=param,
        code="approval_request_not_found",
    )


def already_answered(param: str) -> InvalidRequest:
    """The error for a second response to one request."""
    return InvalidRequest(
        "The request for approval has been answered before.",
        param=param,
        code="approval_request_answered",
    )
