"""Approvals: which requests they belong to, and what the model gets."""

import hashlib
import time
from dataclasses import replace

import pytest

from server.errors import InvalidRequest
from server.replay.sealing import Sealer
from server.store.approvals.base import KEEP_SECONDS
from server.store.approvals.memory import MemoryAnsweredRequests
from server.tools.mcp.approvals import Approvals, ProposedCall
from tests.server.tools.mcp.conftest import seal, unseal

PROPOSED = ProposedCall("owner", "address", "docs", "search", '{"q": 1}')


async def test_a_request_is_answered_once(approvals: Approvals) -> None:
    request_id = approvals.request_id(PROPOSED, stored=True)
    pending = {request_id: PROPOSED.digest}
    await approvals.check(request_id, PROPOSED, pending, "input.0")

    await approvals.answered.claim("owner", request_id)

    with pytest.raises(InvalidRequest) as error:
        await approvals.check(request_id, PROPOSED, pending, "input.0")
    assert error.value.code == "approval_request_answered"


async def test_a_sealed_request_has_one_id() -> None:
    sealer = Sealer()
    approvals = Approvals(MemoryAnsweredRequests(), sealer.seal_text, sealer.unseal_text)
    request_id = approvals.request_id(PROPOSED, stored=False)
    await approvals.check(request_id, PROPOSED, {}, "input.0")

    bare = request_id.removeprefix("mcpr_")
    for form in (bare, f"mcpr_{request_id}", f"other_{bare}", f"{request_id}="):
        with pytest.raises(InvalidRequest) as error:
            await approvals.check(form, PROPOSED, {}, "input.0")
        assert error.value.code == "approval_request_not_found"


def test_equal_calls_have_requests_of_their_own(approvals: Approvals) -> None:
    for stored in (True, False):
        ids = {approvals.request_id(PROPOSED, stored=stored) for _ in range(3)}
        assert len(ids) == 3


def signatures(text: str) -> tuple[str, ...]:
    return (hashlib.sha256(text.encode()).hexdigest(),)


async def test_a_signed_id_proves_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    approvals = Approvals(MemoryAnsweredRequests(), seal, unseal, signatures)
    request_id = approvals.request_id(PROPOSED, stored=True)
    assert len(request_id) <= 80
    await approvals.check(request_id, PROPOSED, {}, "input.0")
    for changed in (replace(PROPOSED, arguments='{"a":2}'), replace(PROPOSED, owner="other")):
        with pytest.raises(InvalidRequest) as error:
            await approvals.check(request_id, changed, {}, "input.0")
        assert error.value.code == "approval_request_not_found"
    later = time.time() + KEEP_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(InvalidRequest):
        await approvals.check(request_id, PROPOSED, {}, "input.0")


@pytest.mark.parametrize("signed", [True, False])
async def test_an_id_that_is_not_ascii_names_no_request(signed: bool) -> None:
    sealer = Sealer(["s" * 42 + "A="])
    approvals = Approvals(
        MemoryAnsweredRequests(), sealer.seal_text, sealer.unseal_text, sealer.signatures
    )
    request_id = approvals.request_id(PROPOSED, stored=signed)

    with pytest.raises(InvalidRequest) as error:
        await approvals.check(f"{request_id[:-1]}é", PROPOSED, {}, "input.0")

    assert error.value.code == "approval_request_not_found"


async def test_requests_of_earlier_versions_stay_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = Sealer(["s" * 42 + "A="]).signatures
    approvals = Approvals(MemoryAnsweredRequests(), seal, unseal, signatures)
    monkeypatch.setattr(time, "time", lambda: 1_767_225_600)
    request_id = "mcpr_6955b900c36c5b883f74a314f38f70eeac8055f369447552b8ef84a8e9416036"
    await approvals.check(request_id, PROPOSED, {}, "input.0")
    # What stored answers and seals have.
    digest = "52c5b18529453ff546bbe9ba8e3400277704501ee241c89233955112b394627a"
    assert PROPOSED.digest == digest
