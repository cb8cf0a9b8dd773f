"""Responses and their events: the protocol, in memory, and in a database."""
