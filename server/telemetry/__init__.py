"""What operators see of the server: its metrics, and whether it can take requests."""
