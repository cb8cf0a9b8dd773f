"""What the tests with OpenAI's agents SDK share."""

import contextlib
from collections.abc import AsyncIterator

from agents import ModelSettings, OpenAIProvider, RunConfig
from openai import AsyncOpenAI


@contextlib.asynccontextmanager
async def run_config(
    base_url: str,
    model: str,
    settings: ModelSettings | None = None,
    *,
    use_responses: bool = True,
) -> AsyncIterator[RunConfig]:
    """Runs that ask a server by the Responses API, or by Chat Completions."""
    async with AsyncOpenAI(base_url=base_url, api_key="any") as client:
        yield RunConfig(
            model=model,
            model_provider=OpenAIProvider(openai_client=client, use_responses=use_responses),
            model_settings=settings,
            tracing_disabled=True,
        )
