"""Conversations: the protocol, in memory and in a database."""
