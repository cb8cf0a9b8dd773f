"""What separates the cached prompts of API keys, through the whole application."""

from typing import Any

import pytest

BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "Hi"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": "Hi"},
}
ANSWER = "<|channel|>final<|message|>Hi<|return|>"


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(("share", "salts"), [(False, 2), (True, 1)])
async def test_only_requests_of_one_key_share_cached_prompts(
    open_app: Any, path: str, share: bool, salts: int
) -> None:
    async with open_app(ANSWER, api_key=("a", "b"), share_cache=share) as app:
        for key in ("a", "b", "a"):
            headers = {"authorization": f"Bearer {key}"}
            body = {"model": "scripted", **BODIES[path]}
            assert (await app.post(path, body, headers=headers)).status_code == 200
    first, other, again = [request.cache_salt for request in app.backend.requests]
    assert first == again
    assert len({first, other}) == salts
    assert (None in {first, other}) is share
