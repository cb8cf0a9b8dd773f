"""Uploaded files: the protocol, in memory and in a database; their content in a folder."""
