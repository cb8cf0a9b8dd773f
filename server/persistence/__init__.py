"""What keeps runs in the store: journals, heartbeats and take-over, and following a stored run."""
