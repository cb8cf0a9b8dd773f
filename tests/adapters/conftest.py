from pathlib import Path

import pytest

from demo import checkpoint


@pytest.fixture(scope="session")
def checkpoint_folder(request: pytest.FixtureRequest) -> Path:
    """The small random gpt-oss, made once for each checkout."""
    return checkpoint.ensure(request.config.cache.mkdir("checkpoint"))
