"""Stored chat completions: the protocol, in memory and in a database."""
