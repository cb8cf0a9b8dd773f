"""Runs and the store: journals, heartbeats, take-over, and reading the events of a stored run."""
