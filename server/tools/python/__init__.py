"""The hosted tool `python`: a stateful interpreter in a sandbox, and its files."""
