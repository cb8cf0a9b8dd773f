"""Answers: JSON, errors, server-sent events with their backlog, and the content of files."""
