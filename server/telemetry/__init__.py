"""What operators see of the server: whether it can take requests."""
