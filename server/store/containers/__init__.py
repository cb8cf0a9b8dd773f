"""Containers and their files: the protocol, in memory and in a database."""
