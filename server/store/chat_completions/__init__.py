"""Stored chat completions: the protocol with its memory, and a database."""
