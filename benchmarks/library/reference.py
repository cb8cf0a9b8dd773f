"""openai-harmony, with which the renderer and the parser are compared."""

import os
import tempfile
from pathlib import Path
from typing import Any

from harmony.vocab import ranks_file


def load_reference() -> tuple[Any, Any]:
    """The library and its encoding. Raises ImportError where it is not installed."""
    import openai_harmony

    with tempfile.TemporaryDirectory() as folder:
        # It would download the vocabulary.
        Path(folder, "o200k_base.tiktoken").write_bytes(ranks_file())
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = folder
        name = openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS
        return openai_harmony, openai_harmony.load_harmony_encoding(name)
