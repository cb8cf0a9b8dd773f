"""Conversations: the protocol with its memory, and a database."""
