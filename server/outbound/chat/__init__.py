"""Chat Completions and the legacy completions: chunks, and the completions that they make."""
